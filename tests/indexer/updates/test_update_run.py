"""Incremental updates: what is served follows the newest version, whatever comes when and how often."""

from typing import Any

import pytest

from cluster.control_index import HEAD_ID
from indexer import RefusedError, rollback
from mappings import COMPANY, OFFICE, TEAM
from tests.indexer.client_requests import before, lose
from tests.indexer.conftest import Bench, Lines
from tests.indexer.dated_teams import DAYS, start, team
from tests.records import deletion, envelope


def counts(summary: Any, alias: str = "teams") -> tuple[int, int, int, int, int]:
    report = summary.report_for(alias)
    return report.read, report.indexed, report.unchanged, report.stale, report.dead


async def test_records_are_upserted_and_deleted_one_by_one(bench: Bench) -> None:
    await start(bench, team("old", 0), team("other", 0, "o"))
    mark = await bench.mark(TEAM)
    summary = await bench.update({TEAM: [team("new", 1), team("added", 1, "a"), deletion(TEAM, "o", DAYS[1])]})
    assert counts(summary) == (3, 3, 0, 0, 0)
    assert await bench.names() == {"t": "new", "a": "added", "o": None}
    served, published = await bench.served(TEAM), await bench.mark(TEAM)
    assert [served[name]["sequence"] for name in ("t", "a", "o")] == [3, 4, 5]
    assert all(mark.clock < document["clock"] <= published.clock for document in served.values())
    assert published.sequence == 5
    assert await bench.live(TEAM) == "teams-v0001"


async def test_an_older_update_never_overwrites_a_newer_one_nor_a_deletion(bench: Bench) -> None:
    await start(bench, team("fifth", 5), team("x", 0, "x"))
    summary = await bench.update({TEAM: [team("fourth", 4), deletion(TEAM, "x", DAYS[3])]})
    assert counts(summary) == (2, 1, 0, 1, 0)
    summary = await bench.update({TEAM: [team("late", 2, "x"), deletion(TEAM, "t", DAYS[4])]})
    assert counts(summary) == (2, 0, 0, 2, 0)
    assert await bench.names() == {"t": "fifth", "x": None}
    await bench.update({TEAM: [team("back", 6, "x")]})
    assert (await bench.names())["x"] == "back"


async def test_a_deletion_of_what_never_was_keeps_an_older_record_out(bench: Bench) -> None:
    await start(bench, team("one", 0))
    await bench.update({TEAM: [deletion(TEAM, "x", DAYS[3])]})
    summary = await bench.update({TEAM: [team("late", 2, "x")]})
    assert counts(summary) == (1, 0, 0, 1, 0)
    assert (await bench.names())["x"] is None


async def test_unchanged_content_gets_its_new_version_and_keeps_its_stamp(bench: Bench) -> None:
    await start(bench, team("same", 0))
    before = (await bench.served(TEAM))["t"]
    summary = await bench.update({TEAM: [team("same", 3), team("same", 4)]})
    after = (await bench.served(TEAM))["t"]
    assert counts(summary) == (2, 0, 1, 1, 0)
    assert (after["clock"], after["sequence"]) == (before["clock"], before["sequence"])
    assert after["version"] > before["version"]
    assert counts(await bench.update({TEAM: [team("between", 2)]})) == (1, 0, 0, 1, 0)


async def test_a_source_that_is_applied_again_changes_nothing(bench: Bench) -> None:
    await start(bench, team("one", 0))
    lines: Lines = {TEAM: [team("two", 1), deletion(TEAM, "gone", DAYS[1]), b"{"]}
    first = await bench.update(lines)
    before = await bench.served(TEAM)
    again = await bench.update(lines)
    assert (counts(first), counts(again)) == ((3, 2, 0, 0, 1), (3, 0, 2, 0, 1))
    assert await bench.served(TEAM) == before
    assert [(letter["file"], letter["line"]) for letter in bench.letters()] == [("teams.ndjson", 3)] * 2


async def test_a_company_that_comes_with_an_update_is_known_to_what_follows(bench: Bench) -> None:
    await bench.build({COMPANY: [envelope(COMPANY)], OFFICE: [envelope(OFFICE)]})
    company = envelope(COMPANY, {"platform_company_id": "new", "numeric_id": "7"}, updated_at=DAYS[2])
    office = envelope(OFFICE, {"platform_office_id": "o7"}, platform_company_id="7")
    foreign = envelope(OFFICE, {"platform_office_id": "o8"}, platform_company_id="unknown")
    summary = await bench.update({OFFICE: [office, foreign], COMPANY: [company]})
    assert counts(summary, "companies") == (1, 1, 0, 0, 0)
    assert counts(summary, "offices") == (2, 1, 0, 0, 1)
    assert (await bench.served(OFFICE))["o7"]["company"] == "new"


async def test_the_failure_of_an_update_is_reported_and_not_that_of_its_events(bench: Bench) -> None:
    await bench.build({COMPANY: [envelope(COMPANY)]})
    with (
        before(bench.client, "POST /_mget", *[lose] * 9, having=f"'{HEAD_ID}'"),
        pytest.raises(RefusedError, match="was never built"),
    ):
        await bench.update({TEAM: [team("one", 0)]})


async def test_an_update_that_a_rollback_finds_is_in_what_comes_back(bench: Bench) -> None:
    await start(bench, team("first", 0), team("a", 0, "a"))
    await start(bench, team("bad", 1), team("bad", 1, "a"))
    await bench.update({TEAM: [team("since", 2, "a"), team("new", 2, "n")]})
    before = await bench.mark(TEAM)
    await rollback(bench.engine(), TEAM)
    assert await bench.names() == {"t": "first", "a": "since", "n": "new"}
    after = await bench.mark(TEAM)
    assert (after.epoch, after.sequence) == (before.epoch + 1, before.sequence)
