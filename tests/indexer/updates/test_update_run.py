"""Incremental updates: what is served follows the newest version, whatever comes when and how often."""

from typing import Any

import pytest

from indexer import ElasticsearchError, RefusedError, rollback
from mappings import COMPANY, OFFICE, TEAM
from tests.indexer.conftest import Bench, Lines
from tests.indexer.dated_teams import DAYS, start, team
from tests.records import deletion, envelope


def counts(summary: Any, alias: str = "teams") -> tuple[int, int, int, int, int]:
    report = summary.report_for(alias)
    return report.read, report.indexed, report.unchanged, report.stale, report.dead


async def name(bench: Bench, identifier: str = "t") -> str | None:
    """Return the name that is served, None for a tombstone."""
    document = (await bench.served(TEAM))[identifier]
    return None if document["deleted"] else str(document["record"]["name"])


async def test_records_are_upserted_and_deleted_one_by_one(bench: Bench) -> None:
    await start(bench, team("old", 0), team("other", 0, "o"))
    mark = await bench.mark(TEAM)
    summary = await bench.update({TEAM: [team("new", 1), team("added", 1, "a"), deletion(TEAM, "o", DAYS[1])]})
    assert counts(summary) == (3, 3, 0, 0, 0)
    assert [await name(bench, each) for each in ("t", "a", "o")] == ["new", "added", None]
    served, published = await bench.served(TEAM), await bench.mark(TEAM)
    assert [served[each]["sequence"] for each in ("t", "a", "o")] == [3, 4, 5]
    assert all(mark.clock < document["clock"] <= published.clock for document in served.values())
    assert published.sequence == 5
    assert await bench.live(TEAM) == "teams-v0001"


async def test_an_older_update_never_overwrites_a_newer_one_nor_a_deletion(bench: Bench) -> None:
    await start(bench, team("fifth", 5), team("x", 0, "x"))
    summary = await bench.update({TEAM: [team("fourth", 4), deletion(TEAM, "x", DAYS[3])]})
    assert counts(summary) == (2, 1, 0, 1, 0)
    summary = await bench.update({TEAM: [team("late", 2, "x"), deletion(TEAM, "t", DAYS[4])]})
    assert counts(summary) == (2, 0, 0, 2, 0)
    assert [await name(bench), await name(bench, "x")] == ["fifth", None]
    await bench.update({TEAM: [team("back", 6, "x")]})
    assert await name(bench, "x") == "back"


async def test_a_deletion_of_what_never_was_keeps_an_older_record_out(bench: Bench) -> None:
    await start(bench, team("one", 0))
    await bench.update({TEAM: [deletion(TEAM, "x", DAYS[3])]})
    summary = await bench.update({TEAM: [team("late", 2, "x")]})
    assert counts(summary) == (1, 0, 0, 1, 0)
    assert await name(bench, "x") is None


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


async def test_what_was_never_built_takes_no_updates(bench: Bench) -> None:
    await bench.build({COMPANY: [envelope(COMPANY)]})
    with pytest.raises(RefusedError, match="teams was never built"):
        await bench.update({TEAM: [team("one", 0)]})


async def test_the_failure_of_an_update_is_reported_and_not_that_of_its_events(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise ElasticsearchError("The control index cannot be read.")

    await bench.build({COMPANY: [envelope(COMPANY)]})
    monkeypatch.setattr("indexer.after_publish.AFTER_PUBLISH", (fail,))
    with pytest.raises(RefusedError, match="was never built"):
        await bench.update({TEAM: [team("one", 0)]})


async def test_an_update_that_a_rollback_finds_is_in_what_comes_back(bench: Bench) -> None:
    await start(bench, team("first", 0), team("a", 0, "a"))
    await start(bench, team("bad", 1), team("bad", 1, "a"))
    await bench.update({TEAM: [team("since", 2, "a"), team("new", 2, "n")]})
    before = await bench.mark(TEAM)
    await rollback(bench.engine(), TEAM)
    assert [await name(bench, each) for each in ("t", "a", "n")] == ["first", "since", "new"]
    after = await bench.mark(TEAM)
    assert (after.epoch, after.sequence) == (before.epoch + 1, before.sequence)
