"""An update names the records that are not served as its lines have them, and why; then its exit code is 1."""

from typing import Any

from indexer import RunSummary
from mappings import TEAM
from tests.indexer.conftest import Bench
from tests.indexer.dated_teams import DAYS, start, team
from tests.records import deletion


def unserved(summary: RunSummary) -> dict[str, tuple[int, list[str]]]:
    """Return the count and the examples by the first words of each reason."""
    kinds = summary.report_for("teams").unserved
    return {" ".join(kind.reason.split()[:4]): (kind.count, kind.examples) for kind in kinds}


def exact(day: int) -> str:
    return DAYS[day]


async def test_each_reason_is_named_with_its_count_and_both_times(bench: Bench) -> None:
    live = [team("live", 5), team("gone", 5, "g"), team("removed", 5, "r"), *(team("n", 5, f"n{n}") for n in range(5))]
    await start(bench, *live)
    await bench.build({TEAM: [one for one in live if one["record"]["uuid"] != "r"]})
    await bench.update({TEAM: [deletion(TEAM, "g", DAYS[6])]})
    older = [team("older", 4, f"n{n}") for n in range(5)]
    changed = [team("late", 4, "g"), team("late", 3, "r"), team("one", 7, "m"), team("other", 7, "m")]
    summary = await bench.update({TEAM: [*older, *changed]})
    assert summary.exit_code == 1
    named = unserved(summary)
    assert named["older than the live"] == (
        5,
        [f"n{n} in teams.ndjson:{n + 1} ({exact(4)}, served {exact(5)})" for n in range(3)],
    )
    assert named["not newer than the"] == (1, [f"g in teams.ndjson:6 ({exact(4)}, served {exact(6)})"])
    assert named["older than the record"] == (1, [f"r in teams.ndjson:7 ({exact(3)}, served {exact(5)})"])
    assert named["one of several different"][0] == 1
    assert sum(count for count, _ in named.values()) == 8


async def test_content_that_changed_without_a_later_time_is_named_unless_it_is_served(bench: Bench) -> None:
    await start(bench, *(team("one", 1, f"t{n}") for n in range(8)))
    summary = await bench.update({TEAM: [team("changed", 1, f"t{n}") for n in range(8)]})
    served = await bench.served(TEAM)
    behind = sum(served[f"t{n}"]["record"]["name"] == "one" for n in range(8))
    assert summary.exit_code == int(behind > 0)
    assert sum(count for count, _ in unserved(summary).values()) == behind


async def test_lines_that_the_source_itself_supersedes_are_no_fault_in_any_order(bench: Bench) -> None:
    await start(bench, team("one", 1))
    history: list[Any] = [team("two", 2), team("three", 3), deletion(TEAM, "gone", DAYS[2])]
    for lines in (history, history[::-1], [*history, *history], [team("one", 1), *history]):
        summary = await bench.update({TEAM: lines}, bulk_documents=1)
        assert (summary.exit_code, unserved(summary)) == (0, {})
    summary = await bench.update({TEAM: history[:1]})
    assert unserved(summary)["older than the live"][0] == 1


async def test_lines_with_one_identifier_and_time_are_merged_across_batches(bench: Bench) -> None:
    await start(bench, team("first", 0))
    lines = [team(f"house {n}", 1, "same") for n in range(4)]
    summary = await bench.update({TEAM: lines}, bulk_documents=1)
    assert (summary.exit_code, unserved(summary)["one of several different"][0]) == (1, 1)
