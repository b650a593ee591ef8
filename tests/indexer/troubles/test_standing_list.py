"""A record whose newest line cannot be read stands on a list until its source is served again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from indexer import open_source, rollback, update
from indexer.documents.companies import CoverageRequest
from indexer.troubles import ListedTrouble, Served, dismiss, troubles
from mappings import AGENT, COMPANY, LISTING
from tests.indexer.client_requests import Killed, before, kill
from tests.indexer.conftest import Bench
from tests.indexer.source.tables.table_folder import write_map
from tests.records import deletion, envelope

DAYS = [f"2026-01-{day:02}T00:00:00Z" for day in range(1, 29)]


def listing(status: str, day: int, identifier: str = "a", **members: Any) -> dict[str, Any]:
    changes = {"PlatformListingId": identifier, "Status": status, **members}
    return envelope(LISTING, changes, updated_at=DAYS[day])


OTHERS = [listing("Active", 1, f"other-{number}") for number in range(3)]


async def start(bench: Bench, *listings: dict[str, Any]) -> None:
    """Load the company of the test records, and its listings."""
    assert (await bench.build({COMPANY: [envelope(COMPANY)], LISTING: listings})).exit_code == 0


async def standing(bench: Bench) -> dict[str, ListedTrouble]:
    """Return the list by identifier."""
    return {entry.trouble.id: entry for entry in await troubles(bench.engine())}


async def served(bench: Bench, identifier: str = "a") -> tuple[str, bool] | None:
    """Return Status and OnMarket of a live listing, None of a deleted one."""
    await bench.client.indices.refresh(index=bench.connection.alias(LISTING))
    document = (await bench.served(LISTING))[identifier]
    return None if document["deleted"] else (document["record"]["Status"], document["record"]["OnMarket"])


async def test_an_unreadable_update_stands_until_a_later_line_is_served(bench: Bench) -> None:
    await start(bench, listing("Active", 1), listing("Active", 1, "b"))
    summary = await bench.update({LISTING: [listing("Sold STC", 2)]})
    assert summary.exit_code == 1
    entry = (await standing(bench))["a"]
    assert (entry.trouble.field, entry.trouble.company, entry.served) == ("record.Status", "acme", Served.BEFORE)
    assert "Sold STC" in entry.trouble.reason
    assert entry.trouble.origin == "listings.ndjson:1"

    other = await bench.update({LISTING: [listing("Pending", 3, "b")]})
    assert other.exit_code == 1
    assert other.problems[0].startswith("1 record is not served as its source says")

    healed = await bench.update({LISTING: [listing("Sold", 4)]})
    assert (healed.exit_code, healed.problems, await standing(bench)) == (0, [], {})
    assert await served(bench) == ("Sold", False)


@pytest.mark.parametrize(
    ("later", "stands"),
    [
        pytest.param([listing("Pending", 3)], False, id="a later state"),
        pytest.param([deletion(LISTING, "a", DAYS[3])], False, id="a deletion"),
        pytest.param([listing("Active", 1)], True, id="the state that was served before"),
        pytest.param([listing("Active", 0)], True, id="an older state"),
        pytest.param([listing("Sold STC", 2), listing("Pending", 3)], False, id="read again, then a later state"),
        pytest.param([listing("Pending", 3), listing("Gone", 4)], True, id="a later state, then another fault"),
        pytest.param([listing("Pending", 3, "b")], True, id="another record"),
    ],
)
async def test_what_ends_a_trouble(bench: Bench, later: Sequence[dict[str, Any]], *, stands: bool) -> None:
    await start(bench, listing("Active", 1), listing("Active", 1, "b"))
    await bench.update({LISTING: [listing("Sold STC", 2)]})
    since = (await standing(bench))["a"].trouble.since
    await bench.update({LISTING: list(later)})
    assert {name: entry.trouble.since for name, entry in (await standing(bench)).items()} == (
        {"a": since} if stands else {}
    )


async def test_a_run_that_ended_before_it_stored_the_list_is_made_up_for(bench: Bench) -> None:
    await start(bench, listing("Active", 1), listing("Active", 1, "b"))
    await bench.update({LISTING: [listing("Sold STC", 2)]})
    with before(bench.client, "PUT /_doc/troubles-", kill), pytest.raises(Killed):
        await bench.update({LISTING: [listing("Pending", 3)]})
    assert (await standing(bench)).keys() == {"a"}
    assert await served(bench) == ("Pending", True)
    await bench.update({LISTING: [listing("Pending", 3, "b")]})
    assert await standing(bench) == {}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param([listing("Active", 1)], {}, id="readable again, without a later time"),
        pytest.param([listing("Sold STC", 2)], {"a": Served.BEFORE}, id="still unreadable"),
        pytest.param([], {}, id="absent"),
        pytest.param(
            [listing("Pending", 3), listing("Gone", 1, "new")],
            {"new": Served.NOTHING},
            id="another that was never live",
        ),
    ],
)
async def test_a_rebuild_settles_the_list(
    bench: Bench, source: Sequence[dict[str, Any]], expected: dict[str, Served]
) -> None:
    await start(bench, listing("Active", 1), *OTHERS)
    await bench.update({LISTING: [listing("Sold STC", 2)]})
    summary = await bench.build({LISTING: [*source, *OTHERS]})
    assert {name: entry.served for name, entry in (await standing(bench)).items()} == expected
    assert summary.exit_code == int(bool(expected))


async def test_a_rebuild_of_one_company_leaves_the_troubles_of_others(bench: Bench) -> None:
    other = [envelope(COMPANY, {"platform_company_id": "other", "numeric_id": "2"})]
    theirs = [listing("Active", 1, "b") | {"platform_company_id": "other"}]
    await bench.build({COMPANY: [envelope(COMPANY), *other], LISTING: [listing("Active", 1), *theirs]})
    broken = [line | {"updated_at": DAYS[2], "record": line["record"] | {"Status": "?"}} for line in theirs]
    await bench.update({LISTING: [listing("Sold STC", 2), *broken]})
    assert (await standing(bench)).keys() == {"a", "b"}
    await bench.build({LISTING: [listing("Active", 1)]}, covered=CoverageRequest(("acme",)))
    assert (await standing(bench)).keys() == {"b"}


WITHDRAWN = [
    pytest.param("off_market", "Active", ("Other", False), Served.OFF_MARKET, id="off the market"),
    pytest.param("off_market", "ComingSoon", ("Other", False), Served.OFF_MARKET, id="coming soon is for sale"),
    pytest.param("off_market", "Expired", ("Expired", False), Served.BEFORE, id="not on the market before"),
    pytest.param("withhold", "Expired", None, Served.WITHHELD, id="withheld"),
    pytest.param("keep", "Active", ("Active", True), Served.BEFORE, id="kept"),
]


@pytest.mark.parametrize(("policy", "before", "after", "served_as"), WITHDRAWN)
async def test_after_its_hours_a_record_is_withdrawn(
    bench: Bench, policy: str, before: str, after: tuple[str, bool] | None, served_as: Served
) -> None:
    await start(bench, listing(before, 1))
    mark = await bench.mark(LISTING)
    await bench.update({LISTING: [listing("Sold STC", 2)]}, trouble_policy=policy)
    assert await served(bench) == (before, before == "Active")  # within its hours
    await bench.update({}, trouble_policy=policy, trouble_hours=0.0)
    assert await served(bench) == after
    assert (await standing(bench))["a"].served is served_as
    document = (await bench.served(LISTING))["a"]
    is_changed = served_as is not Served.BEFORE
    assert (document["sequence"] > mark.sequence, document.get("status")) == (
        is_changed,
        None if after is None else after[0],
    )
    await bench.update({}, trouble_policy=policy, trouble_hours=0.0)
    assert (await bench.served(LISTING))["a"]["sequence"] == document["sequence"]


@pytest.mark.parametrize("policy", ["off_market", "withhold"])
@pytest.mark.parametrize(
    ("verb", "line", "status"),
    [
        pytest.param("update", listing("Pending", 3), "Pending", id="a later line"),
        pytest.param("update", listing("Active", 1), None, id="the line of before, sent again"),
        pytest.param("build", listing("Active", 1), "Active", id="the line of before, in a full source"),
        pytest.param("build", listing("Active", 0), None, id="an older full source"),
        pytest.param("build", listing("Sold STC", 2), None, id="a full source that is unreadable, too"),
    ],
)
async def test_what_brings_a_withdrawn_record_back(
    bench: Bench, policy: str, verb: str, line: dict[str, Any], status: str | None
) -> None:
    await start(bench, listing("Active", 1), *OTHERS)
    options = {"trouble_policy": policy, "trouble_hours": 0.0}
    await bench.update({LISTING: [listing("Sold STC", 2)]}, **options)
    withdrawn = await served(bench)
    await getattr(bench, verb)({LISTING: [line, *OTHERS]}, **options)
    assert await served(bench) == ((status, True) if status else withdrawn)


async def test_a_rollback_cannot_put_a_withdrawn_listing_up_for_sale_again(bench: Bench) -> None:
    await start(bench, listing("Active", 1))
    await bench.build({LISTING: [listing("Active", 1)]})
    await bench.update({LISTING: [listing("Sold STC", 2)]}, trouble_hours=0.0)
    await rollback(bench.engine(), LISTING)
    await bench.update({}, trouble_hours=0.0)
    assert await served(bench) == ("Other", False)


async def test_a_dismissed_record_stays_as_it_is_and_no_longer_counts(bench: Bench) -> None:
    await start(bench, listing("Active", 1))
    await bench.update({LISTING: [listing("Sold STC", 2)]})
    assert await dismiss(bench.engine(), LISTING, ["a", "unknown"]) == ["unknown"]
    summary = await bench.update({}, trouble_hours=0.0)
    assert (summary.exit_code, await served(bench)) == (0, ("Active", True))
    assert (await standing(bench))["a"].trouble.dismissed is not None
    again = await bench.update({LISTING: [listing("Gone", 3)]})
    assert (again.exit_code, (await standing(bench))["a"].trouble.dismissed) == (1, None)


async def test_an_agent_stays_as_it_was(bench: Bench) -> None:
    await bench.build({COMPANY: [envelope(COMPANY)], AGENT: [envelope(AGENT, updated_at=DAYS[1])]})
    broken = envelope(AGENT, updated_at=DAYS[2], deactivated_at="never")
    await bench.update({AGENT: [broken]}, trouble_hours=0.0)
    (entry,) = (await standing(bench)).values()
    assert (entry.trouble.resource, entry.served) == ("agents", Served.BEFORE)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("withhold", None), ("off_market", ("Other", False)), ("keep", ("Active", True))],
)
async def test_the_policy_of_a_map_overrides_the_setting(
    bench: Bench, tmp_path: Path, policy: str, expected: tuple[str, bool] | None
) -> None:
    await start(bench, listing("Active", 1))
    (tmp_path / "table.csv").write_text(f"id,status,at\na,Sold STC,{DAYS[2]}\n")
    declared = f"""resource = "listings"
        file = "table.csv"
        platform_company_id = "acme"
        trouble_policy = "{policy}"
        updated_at = {{column = "at"}}
        [record]
        PlatformListingId = {{column = "id"}}
        Status = {{column = "status"}}"""
    options = {"trouble_policy": "off_market" if policy == "keep" else "keep"}
    with open_source(write_map(tmp_path, declared)) as source:
        await update(bench.engine(**options), source)
    await bench.update({}, trouble_hours=0.0, **options)
    assert await served(bench) == expected
