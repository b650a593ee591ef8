"""Unreadable is not absent: the live record of a line that cannot be read stays, or the swap is refused."""

from typing import Any

import orjson
import pytest

from indexer import ResourceReport, RunStage, open_source
from indexer.source.lines import recovered_identifiers
from mappings import COMPANY, LISTING, TEAM
from tests.indexer.conftest import Bench
from tests.records import envelope

OLD, NEW = "name of a test", "new"


def team(identifier: str, **changes: Any) -> dict[str, Any]:
    return envelope(TEAM, {"uuid": identifier, **changes})


def line(identifier: str, **changes: Any) -> bytes:
    return orjson.dumps(team(identifier, name=NEW, **changes))


async def rebuilt(bench: Bench, *lines: bytes, **options: Any) -> ResourceReport:
    """Build the teams t1 and t2, then rebuild from lines behind a third one that is good."""
    await bench.build({TEAM: [team("t1"), team("t2")]})
    summary = await bench.build({TEAM: [*lines, line("t3")]}, **options)
    return summary.report_for("teams")


async def names(bench: Bench) -> dict[str, str | None]:
    """Return the names of the live teams, None for deleted ones."""
    return {key: document.get("record", {}).get("name") for key, document in (await bench.served(TEAM)).items()}


def damaged(identifier: str) -> dict[str, bytes]:
    """Return lines of a team that cannot be read, by what is wrong with them."""
    good, deep = line(identifier), b"[" * 5_000 + b"]" * 5_000
    return {
        "a wrong type": line(identifier, active="often"),
        "an unknown field": line(identifier, colour="red"),
        "an unknown company": orjson.dumps(team(identifier) | {"platform_company_id": "unheard"}),
        "no time": orjson.dumps({"platform_company_id": "acme", "record": {"uuid": identifier}}),
        "Latin-1": good.replace(b'"new"', b'"caf\xe9"'),
        "a lone surrogate": good.replace(b'"new"', b'"\\ud800"'),
        "a NUL": good.replace(b'"new"', b'"\x00"'),
        "no end": good[:-20],
        "no end, inside the record": good[: good.index(b'"name"')],
        "a number for an identifier": good.replace(b'"%b"' % identifier.encode(), identifier.encode()),
        "deep nesting": good.replace(b'"new"', deep),
        "deep nesting, unknown": good.replace(b'"name"', b'"x":' + deep + b',"name"'),
        "too long": line(identifier, description="x" * 20_000),
        "bytes behind it": good + b"}",
    }


async def test_the_live_record_of_an_unreadable_line_stays(bench: Bench) -> None:
    faults = list(damaged("1"))
    await bench.build({TEAM: [team(str(number)) for number in range(len(faults) + 1)]})
    lines = [damaged(str(number))[fault] for number, fault in enumerate(faults)]
    (bench.folder / "teams.ndjson").write_bytes(b"\n".join([*lines, line(str(len(faults))), line("t3")]))
    with open_source(str(bench.folder), max_record_bytes=15_000) as source:
        report = (await bench.build_source(source, [TEAM], dead_letter_limit=1.0)).report_for("teams")
    kept = {str(number): OLD for number in range(len(faults))}
    assert await names(bench) == {**kept, str(len(faults)): NEW, "t3": NEW}
    assert (report.stage, report.dead, report.kept, report.vanished) == (RunStage.SWAPPED, len(kept), len(kept), 0)
    letters = bench.letters()
    assert [(letter["file"], letter["line"], letter["records"]) for letter in letters] == [
        ("teams.ndjson", number + 1, [str(number)]) for number in range(len(faults))
    ]


async def test_both_records_of_two_lines_that_ran_into_each_other_stay(bench: Bench) -> None:
    report = await rebuilt(bench, line("t1") + line("t2"))
    assert (report.stage, report.dead, report.kept) == (RunStage.SWAPPED, 1, 2)
    assert await names(bench) == {"t1": OLD, "t2": OLD, "t3": NEW}


@pytest.mark.parametrize("cut", [1, 2, 9, 30, 31, 40, 60, 74, 75, 83, 90])
def test_a_line_that_ran_into_what_is_left_of_another_names_only_one_of_its_records(cut: int) -> None:
    assert recovered_identifiers(line("t1")[:cut] + line("t2"), "uuid") is None


@pytest.mark.parametrize(
    "nothing", [b"{nonsense", b"\x00" * 50, b"{}", line("t1")[:90], b"[1]", b'"uuid": "t1', b"\x00" + line("t1")]
)
def test_what_names_no_record(nothing: bytes) -> None:
    assert recovered_identifiers(nothing, "uuid") is None


async def test_a_record_that_elasticsearch_refuses_stays_as_it_was(bench: Bench) -> None:
    await bench.build({LISTING: [envelope(LISTING)]})
    long = envelope(LISTING, {"ListingID": "x" * 40_000, "City": NEW})
    report = (await bench.build({LISTING: [long]})).report_for("listings")
    assert (report.stage, report.dead, report.kept) == (RunStage.SWAPPED, 1, 1)
    assert (await bench.served(LISTING))["listing-1"]["record"]["City"] == "City of a test"


async def test_a_record_with_a_good_line_too_takes_that(bench: Bench) -> None:
    report = await rebuilt(bench, damaged("t1")["a wrong type"], line("t1"), line("t2"))
    assert (report.dead, report.kept) == (1, 0)
    assert await names(bench) == dict.fromkeys(("t1", "t2", "t3"), NEW)


async def test_nothing_vanishes_beside_a_line_that_names_no_record(bench: Bench) -> None:
    report = await rebuilt(bench, b"{nonsense", line("t2"))
    assert report.stage is RunStage.REFUSED
    assert "would lose t1, which may be in lines that cannot be read: line 1, see " in str(report.refusal)
    assert str(report.refusal).endswith(". Correct these lines. Nothing was switched.")
    assert await names(bench) == {"t1": OLD, "t2": OLD}


async def test_force_lets_records_vanish_all_the_same(bench: Bench) -> None:
    report = await rebuilt(bench, b"{nonsense", line("t2"), force=True)
    assert (report.stage, report.vanished, len(report.overridden)) == (RunStage.SWAPPED, 1, 1)
    assert await names(bench) == {"t1": None, "t2": NEW, "t3": NEW}


async def test_a_line_that_names_no_record_stops_nothing_where_nothing_vanishes(bench: Bench) -> None:
    report = await rebuilt(bench, b"{nonsense", line("t1"), line("t2"))
    assert (report.stage, report.dead, report.kept) == (RunStage.SWAPPED, 1, 0)


async def test_a_line_without_a_resource_may_be_of_any(bench: Bench) -> None:
    await bench.build({TEAM: [team("t1")], LISTING: [envelope(LISTING)]})
    named = [envelope(COMPANY) | {"resource": "companies"}, envelope(LISTING) | {"resource": "listings"}]
    other = [envelope(LISTING, {"PlatformListingId": "l2"}) | {"resource": "listings"}]
    teams = [team("t2") | {"resource": "teams"}]
    path = bench.folder.parent / "all.ndjson"
    path.write_bytes(b"\n".join([*map(orjson.dumps, [*named, *other, *teams]), b"{nonsense"]))
    with open_source(str(path)) as source:
        summary = await bench.build_source(source)
    assert "would lose t1, which may be in lines that cannot be read: 1 line without a resource" in str(
        summary.report_for("teams").refusal
    )
    assert summary.report_for("listings").stage is RunStage.BUILT


async def test_the_records_of_a_company_with_an_unreadable_line_are_still_taken(bench: Bench) -> None:
    other = envelope(COMPANY, {"platform_company_id": "other", "numeric_id": "7"})
    await bench.build({COMPANY: [envelope(COMPANY), other], TEAM: [team("t1")]})
    bad = envelope(COMPANY, {"platform_company_id": "other", "numeric_id": "7", "name": 5})
    teams = [team("t1"), team("t2") | {"platform_company_id": "7"}]
    summary = await bench.build({COMPANY: [envelope(COMPANY), bad], TEAM: teams})
    assert (summary.report_for("companies").kept, summary.report_for("teams").dead) == (1, 0)
    assert sorted(await bench.served(COMPANY)) == ["acme", "other"]
    assert (await bench.served(TEAM))["t2"]["company"] == "other"


async def test_a_row_of_a_table_is_recognized_by_its_identifier(bench: Bench) -> None:
    await bench.build({COMPANY: [envelope(COMPANY)], TEAM: [team("t1"), team("t2")]})
    (bench.folder / "map.toml").write_text(
        'resource = "teams"\nfile = "t.csv"\nupdated_at = "2026-01-03"\nplatform_company_id = "acme"\n'
        '[record]\nuuid = {column = "id"}\nactive = {column = "on"}\n'
    )
    (bench.folder / "t.csv").write_text("id,on\nt1,sometimes\nt2,yes\n")
    with open_source(str(bench.folder / "map.toml")) as source:
        report = (await bench.build_source(source)).report_for("teams")
    assert (report.stage, report.dead, report.kept) == (RunStage.SWAPPED, 1, 1)
    assert (await bench.served(TEAM))["t1"]["record"]["name"] == OLD
