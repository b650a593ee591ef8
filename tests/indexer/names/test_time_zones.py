"""The time zone of open houses: that of the property, otherwise that of the listing's office; none is counted."""

import asyncio
from typing import Any

import pytest

from indexer.names import Names
from mappings import COMPANY, LISTING, OFFICE
from mappings.listing import TIME_ZONE
from tests.indexer.command.test_command import run
from tests.indexer.conftest import Bench
from tests.indexer.names.test_filled_names import COMPANIES, DAYS, bench_is_as_its_source, served
from tests.indexer.parsed_lines import parse_line
from tests.records import envelope

DENVER, CHICAGO, HONOLULU = "America/Denver", "America/Chicago", "Pacific/Honolulu"


def office(identifier: str, zone: Any, day: int = 1, company: str = "acme") -> dict[str, Any]:
    record = {"platform_office_id": identifier, "timezone": zone}
    return envelope(OFFICE, record, updated_at=DAYS[day], platform_company_id=company)


def listing(identifier: str, office_id: str | None, zone: str | None = None, **given: Any) -> dict[str, Any]:
    record = {"PlatformListingId": identifier, "ListAgentPlatformOfficeID": office_id, **given}
    return envelope(LISTING, record, updated_at=DAYS[1]) | ({TIME_ZONE: zone} if zone else {TIME_ZONE: None})


OFFICES = [office("denver", DENVER), office("odd", "Mountain Time"), office("child", CHICAGO, company="child")]
# Of each case: the office of the listing, the zone that its source has, and the one that counts.
CASES: dict[str, tuple[str | None, str | None, str | None]] = {
    "the-source-has-it": ("denver", HONOLULU, HONOLULU),
    "the-office-has-it": ("denver", None, DENVER),
    "the-office-has-none-that-is-known": ("odd", None, None),
    "there-is-no-such-office": ("none", None, None),
    "the-listing-has-no-office": (None, None, None),
    "an-office-of-another-company": ("child", None, None),
}


async def zones(bench: Bench) -> dict[str, str | None]:
    return {identifier: document.get(TIME_ZONE) for identifier, document in (await served(bench)).items()}


@pytest.mark.parametrize("processes", [1, 2])
async def test_open_houses_are_in_the_zone_of_the_property_or_its_office(bench: Bench, processes: int) -> None:
    lines = [listing(case, office_id, zone) for case, (office_id, zone, _) in CASES.items()]
    lines += [listing("none-are-open", "denver", OpenHouse=[]), listing("kept", None, HONOLULU, OpenHouse=[])]
    loaded = await bench.build({COMPANY: COMPANIES, OFFICE: OFFICES, LISTING: lines}, processes=processes)
    expected = {case: counts for case, (_, _, counts) in CASES.items()}
    assert await zones(bench) == {**expected, "none-are-open": None, "kept": HONOLULU}
    # Two open houses each.
    assert loaded.report_for("listings").zoneless == 8
    _, said, _ = await run(bench, "reindex", str(bench.folder))
    assert "8 open houses without a time zone (/v1/reso has their days alone" in " ".join(said.split())
    assert await bench_is_as_its_source(bench)


async def test_a_zone_follows_the_office_and_changes_what_is_open_then(bench: Bench) -> None:
    lines = [listing("a", "denver"), listing("closed", "denver", OpenHouse=[]), listing("own", "denver", HONOLULU)]
    await bench.build({COMPANY: COMPANIES, OFFICE: OFFICES, LISTING: lines})
    before = await served(bench)
    await bench.update({OFFICE: [office("denver", CHICAGO, 2)]})
    after = await served(bench)
    assert await zones(bench) == {"a": CHICAGO, "closed": None, "own": HONOLULU}
    assert after["a"]["sequence"] > before["a"]["sequence"]
    assert after["a"]["content"] != before["a"]["content"]
    assert (after["closed"], after["own"]) == (before["closed"], before["own"])


async def test_a_zone_is_content_of_listings_with_open_houses_alone(bench: Bench) -> None:
    closed: dict[str, Any] = {"OpenHouse": []}
    await bench.build({COMPANY: COMPANIES, LISTING: [listing("a", None), listing("closed", None, **closed)]})
    before = await served(bench)
    later = [listing("a", None, DENVER), listing("closed", None, DENVER, **closed)]
    await bench.update({LISTING: [{**line, "updated_at": DAYS[2]} for line in later]})
    after = await served(bench)
    assert await zones(bench) == {"a": DENVER, "closed": DENVER}
    assert after["a"]["content"] != before["a"]["content"]
    for name in ("content", "clock", "sequence"):
        assert after["closed"][name] == before["closed"][name]


async def test_what_is_no_time_zone_makes_a_bad_record(bench: Bench) -> None:
    loaded = await bench.build({COMPANY: COMPANIES, LISTING: [listing("a", None, "Pacific"), listing("b", None, "")]})
    (cause,) = loaded.report_for("listings").causes
    assert "property_time_zone" in cause.example
    assert "is 'Pacific', which is not a time zone: use a name such as America/Los_Angeles" in cause.example
    assert await zones(bench) == {"b": None}


async def test_chunks_that_are_written_at_once_all_find_what_they_lack(bench: Bench) -> None:
    await bench.build({COMPANY: COMPANIES, OFFICE: OFFICES, LISTING: [listing("a", "denver")]})
    documents, names = [parse_line(LISTING, listing(name, "denver")) for name in "bcd"], Names(bench.engine())
    filled = await asyncio.gather(*(names.fill([document]) for document in documents))
    assert all(f'"{TIME_ZONE}":"{DENVER}"'.encode() in document.head for (document,) in filled)
