"""Compaction: what is fragmented is merged, whatever happens to the command, and nothing is lost."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import pytest

from indexer import Compaction, CompactionOutcome, compact
from indexer.errors import ElasticsearchError
from indexer.generations.lifecycle import index_fragmentation
from indexer.maintenance import compaction
from indexer.maintenance.compaction import MergeTasks
from indexer.reporting.report import RunStage
from mappings import TEAM
from tests.indexer.client_requests import Act, before, behind
from tests.indexer.command.index_process import running
from tests.indexer.command.test_command import run
from tests.indexer.conftest import Bench
from tests.indexer.expected_state import at_stage
from tests.indexer.faults.end_state import second_bench
from tests.indexer.maintenance.conftest import TEAMS, UPDATED, compact_teams, fragment, fragmentation, team
from tests.internals import Internals
from tests.network.bulk_proxy import RequestProxy
from tests.network.http import Reply, Request
from tests.waiting import until


@pytest.fixture(params=[1, 3])
def shards(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.mark.parametrize("shards", [1], ids=["1 and 3"])
@pytest.mark.usefixtures("small_bounds")
async def test_fragmented_indices_are_merged(bench: Bench, internals: Internals) -> None:
    """Elasticsearch keeps deleted documents for copies of a shard; once it gives them up, no gap is left.

    That takes half a minute, so one shard and several are waited for together.
    """
    internals(compaction_longest_seconds=300.0)
    await asyncio.gather(*(merge_fragmented(bench_with(bench, shards), shards) for shards in (1, 3)))


def bench_with(bench: Bench, shards: int) -> Bench:
    """Return an index prefix whose indices have so many shards."""
    other = second_bench(bench, f"{shards}-")
    return replace(other, folder=bench.folder / str(shards), settings=replace(other.settings, shards=(str(shards),)))


async def merge_fragmented(bench: Bench, shards: int) -> None:
    """Compact fragmented teams: what is served stays, and nothing that was deleted does."""
    await fragment(bench)
    served, before = await bench.served(TEAM), await fragmentation(bench)
    done = await compact_teams(bench)
    assert (done.outcome, done.index) == (CompactionOutcome.COMPACTED, f"{bench.connection.alias(TEAM)}-v0001")
    assert done.before == before
    assert done.after == await fragmentation(bench)
    assert (done.after.deleted, done.after.segments, done.after.shards, done.after.fragmented_shards) == (
        0,
        1,
        shards,
        0,
    )
    assert await bench.served(TEAM) == served


async def test_what_is_within_the_bounds_stays_as_it_is(fragmented: Bench, internals: Internals) -> None:
    internals(most_deleted=0.9)
    before = await fragmentation(fragmented)
    done = await compact_teams(fragmented)
    assert (done.outcome, done.after.segments if done.after else 0) == (CompactionOutcome.SOUND, before.segments)
    assert (await fragmentation(fragmented)) == before
    internals(most_segments=1)
    assert (await compact_teams(fragmented)).outcome is CompactionOutcome.COMPACTED
    assert (await fragmentation(fragmented)).segments == 1
    assert (await compact_teams(fragmented)).outcome is CompactionOutcome.SOUND


async def test_updates_fragment_it_again_and_it_is_merged_again(fragmented: Bench) -> None:
    for number in range(2):
        assert (await compact_teams(fragmented)).outcome is CompactionOutcome.COMPACTED
        assert (await fragmentation(fragmented)).segments == 1
        await fragmented.update({TEAM: [team(at, "newer", 30 + number) for at in range(0, TEAMS, 6)]})
        await fragmented.client.indices.refresh(index=fragmented.connection.alias(TEAM))
        assert (await fragmentation(fragmented)).segments > 1


async def test_a_resource_without_data_is_no_error(bench: Bench) -> None:
    assert (await compact_teams(bench)).outcome is CompactionOutcome.ABSENT


def listed(*names: str | None) -> Act:
    """Return what lets a list of tasks have merges of these names."""
    tasks = {f"n:{number}": {"headers": {"X-Opaque-Id": name} if name else {}} for number, name in enumerate(names)}
    return replaced({"nodes": {"n": {"tasks": tasks}}})


def replaced(answer: dict[str, Any]) -> Act:
    """Return what replaces the body of a response by an answer."""

    return lambda _: orjson.dumps(answer)


async def test_a_merge_of_a_command_that_was_killed_is_followed(fragmented: Bench, internals: Internals) -> None:
    """The next command finds the task, begins none, and reports the whole."""
    live = f"{fragmented.connection.alias(TEAM)}-v0001"
    begun = await MergeTasks(fragmented.engine()).start(live)
    task = {"nodes": {"n": {"tasks": {begun: {"headers": {"X-Opaque-Id": f"brokerage-compact-{live}"}}}}}}
    internals(most_deleted=0.9)
    with (
        behind(fragmented.client, "GET /_tasks?", replaced(task)),
        before(fragmented.client, "POST /_forcemerge") as merges,
    ):
        done = await compact_teams(fragmented)
    assert (done.outcome, done.is_followed, merges.count) == (CompactionOutcome.COMPACTED, True, 0)
    assert (await fragmentation(fragmented)).segments == 1


async def test_running_merges_are_found_by_their_index(bench: Bench) -> None:
    """The merge of another prefix, and of another program, are none of ours."""
    alias = bench.connection.alias(TEAM)
    names = [f"brokerage-compact-{alias}-v0001", f"brokerage-compact-other-{alias}-v0001", "another", None]
    with behind(bench.client, "GET /_tasks?", listed(*names)):
        assert await MergeTasks(bench.engine()).running() == {f"{alias}-v0001": "n:0"}


class UnansweredTasks(RequestProxy):
    """Forwards every request but those about the merge that has begun: its command does not learn that it has ended."""

    has_begun = False

    async def reply(self, request: Request) -> Reply:
        """Forward a request, or never answer."""
        if self.has_begun and request.path.startswith("/_tasks/"):
            await asyncio.Event().wait()
        reply = await super().reply(request)
        self.has_begun |= request.path.endswith("/_forcemerge")
        return reply


async def test_a_killed_command_leaves_nothing_that_the_next_does_not_finish(
    fragmented: Bench, internals: Internals
) -> None:
    internals(most_deleted=0.9, most_segments=1)
    proxy = UnansweredTasks(fragmented.connection.url[0])
    async with (
        proxy.running() as address,
        running(fragmented, "compact", "teams", ELASTICSEARCH_URL=address) as command,
    ):
        await until(lambda: proxy.has_begun)
        command.process.kill()
    code, out, err = await run(fragmented, "compact", "teams", "--json")
    assert (code, err) == (0, "")
    summary = orjson.loads(out.splitlines()[-1])
    assert (summary["event"], summary["resources"]["teams"]["after"]["segments"]) == ("summary", 1)
    assert len(await fragmented.served(TEAM)) == TEAMS


def departed(begun: dict[str, Any]) -> None:
    """Let a merge have begun on a node that is not there."""
    begun["task"] = "departed-node:1"


async def test_a_merge_whose_node_left_is_begun_again(fragmented: Bench) -> None:
    with behind(fragmented.client, "POST /_forcemerge", departed) as merges:
        assert (await compact_teams(fragmented)).outcome is CompactionOutcome.COMPACTED
    assert merges.count == 2


async def test_a_merge_that_a_node_with_a_copy_left_is_begun_again(fragmented: Bench) -> None:
    """Elasticsearch reports its copies as failures of a task that is complete."""
    cause = {"type": "node_not_connected_exception", "reason": "[node-2][127.0.0.1:9302] Node not connected"}
    reason = {"type": "failed_node_exception", "reason": "Failed node [a]", "caused_by": cause}
    failure = {"shard": 0, "index": "teams-v0001", "reason": reason}
    left = replaced({"completed": True, "response": {"_shards": {"failures": [failure]}}})
    with (
        behind(fragmented.client, "GET /_tasks/", left),
        before(fragmented.client, "POST /_forcemerge") as merges,
    ):
        assert (await compact_teams(fragmented)).outcome is CompactionOutcome.COMPACTED
    assert merges.count == 2


async def test_merges_that_are_lost_again_and_again_are_an_error(fragmented: Bench) -> None:
    with (
        behind(fragmented.client, "POST /_forcemerge", *[departed] * 3),
        pytest.raises(ElasticsearchError, match="teams-v0001: the nodes that merged it left 3 times"),
    ):
        await compact_teams(fragmented)


async def test_deleted_documents_that_stay_are_reported(fragmented: Bench, internals: Internals) -> None:
    """They are held for a copy of a shard; the merge drops what it can, once."""
    # Elasticsearch gives them up within half a minute, which on a busy machine may have passed.
    internals(compaction_retained=lambda _: 0.0)
    kept = {"index.soft_deletes.retention.operations": 1_000}
    await fragmented.client.indices.put_settings(index=fragmented.connection.alias(TEAM), settings=kept)
    await fragmented.update({TEAM: [team(at, "held", 51) for at in range(20)]})
    notes = list[str]()
    (done,) = await compact(fragmented.engine(), [TEAM], on_wait=notes.append)
    assert done.after is not None
    assert done.after.is_fragmented
    assert "keeps some deleted documents" in notes[-1]


async def rebuild_teams(bench: Bench, **settings: Any) -> None:
    new = [team(number, "rebuilt", 40) for number in range(TEAMS)]
    assert (await bench.build({TEAM: new}, **settings)).exit_code == 0


async def test_a_build_at_the_same_time_wins(fragmented: Bench) -> None:
    """The command waits, as for a merge, until the generation that it merges was replaced and deleted."""
    rebuild = partial(rebuild_teams, fragmented, kept_generations=1, merge=True)
    with before(fragmented.client, "POST teams-v0001/_forcemerge", rebuild):
        done = await compact_teams(fragmented)
    assert (done.outcome, done.index) == (CompactionOutcome.REPLACED, f"{fragmented.connection.alias(TEAM)}-v0001")
    assert await fragmented.live(TEAM) == "teams-v0002"
    assert {document["record"]["name"] for document in (await fragmented.served(TEAM)).values()} == {"rebuilt"}


async def test_what_was_replaced_while_the_cluster_was_busy_is_not_merged(fragmented: Bench) -> None:
    index = f"{fragmented.connection.alias(TEAM)}-v0001"
    fragments = await index_fragmentation(fragmented.engine(), index)
    with before(fragmented.client, "GET /_nodes/stats/os", partial(rebuild_teams, fragmented)):
        done = await compact_teams(fragmented)
    assert (done.outcome, done.index) == (CompactionOutcome.REPLACED, index)
    assert await index_fragmentation(fragmented.engine(), index) == fragments


async def test_a_compaction_within_a_build_changes_nothing_of_it(fragmented: Bench) -> None:
    """A build is stopped by nothing: it takes what was live, and what was written since, from the merged index."""
    stages: list[asyncio.Task[Compaction]] = []

    def begin() -> None:
        stages.append(asyncio.get_running_loop().create_task(compact_teams(fragmented)))

    new = [team(number, "old", 0) for number in range(TEAMS)]
    summary = await fragmented.build({TEAM: new}, on_progress=at_stage(RunStage.BUILT, begin))
    assert summary.exit_code == 0
    (done,) = [await stage for stage in stages]
    assert done.outcome in {CompactionOutcome.COMPACTED, CompactionOutcome.REPLACED}
    names = {name: document["record"]["name"] for name, document in (await fragmented.served(TEAM)).items()}
    assert names == {f"t{at:03}": "new" if at % 7 == 0 and at < 7 * UPDATED else "old" for at in range(TEAMS)}


async def test_updates_during_a_merge_are_kept(fragmented: Bench) -> None:
    merging = asyncio.create_task(compact_teams(fragmented))
    for number in range(3):
        await fragmented.update({TEAM: [team(50 + number, "late", 20 + number)]})
    await merging
    served = await fragmented.served(TEAM)
    assert {served[f"t{50 + number:03}"]["record"]["name"] for number in range(3)} == {"late"}
    assert len(served) == TEAMS


def loaded(percent: int) -> Act:
    """Return what lets every node have this load."""

    def change(statistics: Any) -> None:
        for node in statistics["nodes"].values():
            node["os"] = {"cpu": {"percent": percent}}

    return change


async def test_a_busy_cluster_is_waited_for_and_then_given_up(fragmented: Bench, internals: Internals) -> None:
    internals(compaction_load_poll_seconds=0.0, compaction_most_load=50, compaction_longest_wait_seconds=0.0)
    with (
        behind(fragmented.client, "GET /_nodes/stats/os", loaded(99)),
        pytest.raises(ElasticsearchError, match=r"used 99 % of its processors, more than 50 %"),
    ):
        await compact_teams(fragmented)
    assert (await fragmentation(fragmented)).is_fragmented
    internals(compaction_longest_wait_seconds=3600.0)
    with behind(fragmented.client, "GET /_nodes/stats/os", loaded(99), loaded(10)) as looks:
        assert (await compact_teams(fragmented)).outcome is CompactionOutcome.COMPACTED
    assert looks.count == 2


async def test_the_load_is_that_of_the_data_nodes(bench: Bench) -> None:
    assert 0 <= await compaction.busiest_node(bench.engine()) <= 100
