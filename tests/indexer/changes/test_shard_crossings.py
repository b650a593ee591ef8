"""A record that moves to a company in another shard is served exactly once at every mark, whatever is visible when."""

from functools import partial
from typing import Any

import pytest

from indexer import ResourceReport, RunStage
from indexer.rollback import rollback
from mappings import COMPANY, TEAM
from mappings.shards import ShardRanges
from mappings.stored_document import feed_key
from service.search.placement import ShardScope, visible_query
from tests.indexer.changes.scope_consumers import COMPANIES, team
from tests.indexer.client_requests import behind
from tests.indexer.conftest import Bench, live_ranges
from tests.indexer.expected_state import at_stage, run_in_thread

# Each company has a shard of its own.
TEAMS = [team(f"{number}{company}", company, number) for company in "abc" for number in range(3)]
Served = dict[str, list[str]]  # companies by identifier


@pytest.fixture
def shards() -> int:
    """Three, whatever the command line says."""
    return 3


@pytest.fixture
async def ranges(bench: Bench) -> ShardRanges:
    """The ranges of the teams of three companies."""
    summary = await bench.build({COMPANY: COMPANIES, TEAM: TEAMS})
    assert summary.exit_code == 0
    return await live_ranges(bench, TEAM)


async def served(bench: Bench, sequence: int, query: dict[str, Any] | None = None) -> Served:
    """Return the companies of each team that readers see at a sequence of the mark, with what is visible now."""
    live: dict[str, object] = {"bool": {"filter": [{"term": {"deleted": False}}, query or {"match_all": {}}]}}
    answer = await bench.client.search(
        index=bench.connection.alias(TEAM), query=visible_query(live, ShardScope(None, sequence)), size=1000
    )
    found: Served = {}
    for hit in answer["hits"]["hits"]:
        found.setdefault(hit["_id"], []).append(hit["_source"]["company"])
    return found


def expected(moved: dict[str, str] | None = None) -> Served:
    return {
        sent["record"]["uuid"]: [(moved or {}).get(sent["record"]["uuid"], sent["record"]["uuid"][1])] for sent in TEAMS
    }


async def make_visible(bench: Bench, ranges: ShardRanges, companies: str) -> None:
    for company in companies:
        routing = ranges.routing(feed_key(company, "x"))
        await bench.client.options(ignore_status=404).get(
            index=bench.connection.alias(TEAM), id="none", routing=routing, refresh=True
        )


async def test_each_company_has_its_shard(bench: Bench, ranges: ShardRanges) -> None:
    assert [ranges.shard(feed_key(company, f"1{company}")) for company in "abc"] == [0, 1, 2]
    alias = bench.connection.alias(TEAM)
    for shard in range(3):
        answer = await bench.client.search(index=alias, preference=f"_shards:{shard}")
        assert sorted(hit["_id"] for hit in answer["hits"]["hits"]) == [
            f"{number}{'abc'[shard]}" for number in range(3)
        ]


@pytest.mark.parametrize("first", ["", "a", "b", "ab"])
@pytest.mark.parametrize("second", ["", "a", "b", "ab"])
async def test_a_move_happens_at_a_mark(bench: Bench, ranges: ShardRanges, first: str, second: str) -> None:
    """Between any two requests, any of the two shards may become visible."""
    earlier = (await bench.mark(TEAM)).sequence
    seen: list[Served] = []

    async def look(visible: str, _: object) -> None:
        await make_visible(bench, ranges, visible)
        seen.append(await served(bench, earlier))

    with behind(bench.client, "POST /_bulk", *(partial(look, visible) for visible in ("", first, second))) as bulks:
        await bench.update({TEAM: [team("1a", "b", 100)]})
    assert bulks.count == 3  # the move, the new copy, the left one
    assert seen == [expected()] * 3
    assert await served(bench, earlier) == expected()
    assert await served(bench, (await bench.mark(TEAM)).sequence) == expected({"1a": "b"})


async def test_moves_there_and_back_are_seen_once_at_every_mark(bench: Bench, ranges: ShardRanges) -> None:
    """Readers may still use an earlier mark; updates in between keep it so."""
    marks = {(await bench.mark(TEAM)).sequence: "a"}
    for number, company in enumerate(["b", "b", "a", "c", "c", "b", "a", "a"]):
        await bench.update({TEAM: [team("1a", company, 100 + number, f"name {number}")]})
        marks[(await bench.mark(TEAM)).sequence] = company
        for mark, where in marks.items():
            assert await served(bench, mark) == expected({"1a": where}), (number, mark)
    assert set(await bench.served(TEAM)) >= {f"{number}{company}" for company in "abc" for number in range(3)}
    assert ranges == await live_ranges(bench, TEAM)


@pytest.mark.usefixtures("ranges")
async def test_a_rebuild_and_a_rollback_have_one_copy(bench: Bench) -> None:
    """A rebuild leaves the left copies behind; a rollback replays moves into the shards of the earlier generation."""
    await bench.update({TEAM: [team("1a", "b", 100), team("1b", "c", 100)]})
    lines = [sent for sent in TEAMS if sent["record"]["uuid"] not in {"1a", "1b"}]
    moved = [team("1a", "b", 100), team("1b", "c", 100)]
    summary = await bench.build({COMPANY: COMPANIES, TEAM: [*lines, *moved]})
    assert summary.exit_code == 0, summary
    mark = (await bench.mark(TEAM)).sequence
    everything = await bench.client.count(index=bench.connection.alias(TEAM), query={"term": {"deleted": False}})
    assert everything["count"] == len(TEAMS)
    assert await served(bench, mark) == expected({"1a": "b", "1b": "c"})
    await bench.update({TEAM: [team("1a", "c", 200), team("1c", "a", 200)]})
    await rollback(bench.engine(), TEAM)
    assert await bench.live(TEAM) == "teams-v0001"
    assert await served(bench, (await bench.mark(TEAM)).sequence) == expected({"1a": "c", "1b": "c", "1c": "a"})


@pytest.mark.usefixtures("ranges")
async def test_an_update_that_arrives_during_a_rebuild_moves_its_record_there_too(bench: Bench) -> None:
    """The candidate has the record in the shard of its source until the update is replayed."""
    updates = iter([[team("1a", "b", 100)], [team("1a", "c", 101), team("1b", "a", 100)]])
    stages = [
        at_stage(stage, lambda: run_in_thread(bench, lambda own: own.update({TEAM: next(updates)})))
        for stage in (RunStage.COMPARING, RunStage.SWAPPING)
    ]

    def show(report: ResourceReport) -> None:
        for stage in stages if report.resource == "teams" else ():
            stage(report)

    summary = await bench.build({COMPANY: COMPANIES, TEAM: TEAMS}, on_progress=show)
    assert summary.exit_code == 0, summary
    assert await bench.live(TEAM) == "teams-v0002"
    found = await served(bench, (await bench.mark(TEAM)).sequence)
    assert found == expected({"1a": "c", "1b": "a"})


@pytest.mark.usefixtures("ranges")
async def test_a_record_with_two_companies_in_one_source_is_kept_once(bench: Bench) -> None:
    """Elasticsearch reports no conflict between shards; the newest line wins, the other is a dead letter."""
    lines = [*TEAMS, team("1a", "c", 500, "newer"), team("2c", "a", 0, "older")]
    summary = await bench.build({COMPANY: COMPANIES, TEAM: lines}, dead_letter_limit=1.0)
    assert not summary.report_for("teams").refusal
    assert await bench.live(TEAM) == "teams-v0002"
    assert await served(bench, (await bench.mark(TEAM)).sequence) == expected({"1a": "c"})
    reasons = sorted(letter["reason"] for letter in bench.letters())
    assert len(reasons) == 2
    assert all("no two companies may share an identifier" in reason for reason in reasons)
