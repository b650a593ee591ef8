"""Faults of nodes while feeds in five shards are built, swapped, walked, compacted and moved."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from unittest.mock import patch

import cluster.index_state as index_fragmentation
import indexer.maintenance.compaction as cluster_load
from indexer import CompactionOutcome, ResourceReport, RunStage, compact
from indexer.maintenance.compaction import MergeTasks
from tests.chaos.scenario_cluster import ScenarioCluster
from tests.chaos.scenario_result import ScenarioResult
from tests.chaos.sharded_feeds import FEEDS, SHARDS, ShardedFeeds, changing_feeds, in_shards

_WEARING_RUNS = 3
_WHAT = f"feeds in {SHARDS} shards are read and updated"


@asynccontextmanager
async def _feeds(ground: ScenarioCluster) -> AsyncIterator[ShardedFeeds]:
    async with in_shards(ground) as sharded, changing_feeds(sharded) as feeds:
        yield feeds
        await ground.nodes.complete()


async def killed_in_build(ground: ScenarioCluster) -> ScenarioResult:
    """Kill a node while a rebuild loads candidates, which have no replicas yet; it comes back soon."""
    async with _feeds(ground) as feeds:
        await _rebuild_with_a_kill(ground, feeds, RunStage.READING, await ground.nodes.holder(feeds.live[0]))
    return feeds.play.outcome(f"SIGKILL of one of three nodes during a rebuild, while {_WHAT}")


async def killed_in_swap(ground: ScenarioCluster) -> ScenarioResult:
    """Kill the elected master when the aliases are about to move."""
    async with _feeds(ground) as feeds:
        await _rebuild_with_a_kill(ground, feeds, RunStage.SWAPPING, await ground.nodes.master())
    return feeds.play.outcome(f"SIGKILL of the elected master during a swap, while {_WHAT}")


async def _rebuild_with_a_kill(ground: ScenarioCluster, feeds: ShardedFeeds, stage: RunStage, number: int) -> None:
    on_progress, killed = _kill_at(ground, stage, number)
    rebuild = asyncio.create_task(feeds.changer.rebuild(on_progress))
    waiting = asyncio.create_task(killed.wait())
    await asyncio.wait({rebuild, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    await ground.nodes.recovered_from_loss()
    await ground.nodes.complete()
    await rebuild
    feeds.play.must(killed.is_set(), f"the rebuild was never {stage.value}")


def _kill_at(
    ground: ScenarioCluster, stage: RunStage, number: int
) -> tuple[Callable[[ResourceReport], None], asyncio.Event]:
    """Return a callback that kills a node at a stage of a rebuild, and the event that it has."""
    killed = asyncio.Event()

    def on_progress(report: ResourceReport) -> None:
        if report.stage is stage and not killed.is_set():
            killed.set()
            ground.nodes.kill(number)

    return on_progress, killed


async def killed_in_walk(ground: ScenarioCluster) -> ScenarioResult:
    """Kill each node in turn, while nothing else happens than walks and updates."""
    async with _feeds(ground) as feeds:
        for number in range(len(ground.nodes.urls)):
            ground.nodes.kill(number)
            await feeds.play.read(ground.extent.during / 2)
            await ground.nodes.complete()
    return feeds.play.outcome(f"SIGKILL of each of three nodes in turn, while {_WHAT}")


async def killed_in_compaction(ground: ScenarioCluster) -> ScenarioResult:
    """Kill the node that has begun to merge a feed, and in the next merge another one."""
    async with _feeds(ground) as feeds:
        await feeds.updated(_WEARING_RUNS)
        start = MergeTasks.start

        async def start_and_kill(tasks: MergeTasks, index: str) -> str:
            task = await start(tasks, index)
            if len(killed) < len(FEEDS):
                # One node at a time: two of three would be all copies of some shards.
                await asyncio.gather(*returning)
                number = await ground.nodes.number(task.partition(":")[0])
                killed.append(number if not killed else (number + 1) % len(ground.nodes.urls))
                ground.nodes.kill(killed[-1])
                returning.append(asyncio.create_task(ground.nodes.complete()))
            return task

        killed, returning = list[int](), list[asyncio.Task[None]]()
        with (
            patch.object(MergeTasks, "start", start_and_kill),
            patch.object(index_fragmentation, "MAX_SEGMENTS", 1),
            patch.object(cluster_load, "MAX_LOAD", 100),
        ):
            done = await compact(feeds.context, FEEDS)
        await asyncio.gather(*returning)
        feeds.play.must(len(killed) == len(FEEDS), f"only {len(killed)} merges began")
        for each in done:
            is_done = each.outcome is CompactionOutcome.COMPACTED
            feeds.play.must(is_done, f"{each.resource} was not compacted: {each}")
    return feeds.play.outcome(f"SIGKILL of one of three nodes during a compaction, twice, while {_WHAT}")


async def moved(ground: ScenarioCluster) -> ScenarioResult:
    """Add a node, to which shards are moved, and move them back before it is removed."""
    async with _feeds(ground) as feeds:
        number = await ground.nodes.add()
        await feeds.play.read(ground.extent.during / 2)
        # Elasticsearch begins to move them some time after a node has joined.
        moved_shards = await ground.nodes.shards_on(number)
        feeds.play.figures["shards on the new node"] = str(moved_shards)
        feeds.play.must(moved_shards > 0, "no shard was moved to the new node")
        await ground.nodes.remove_last()
        await feeds.play.read(ground.extent.during / 2)
        feeds.play.unfailing("while shards moved")
    return feeds.play.outcome(f"a node is added and removed, while {_WHAT}")


async def restarted_in_turn(ground: ScenarioCluster) -> ScenarioResult:
    """Restart each node, as an upgrade does."""
    async with _feeds(ground) as feeds:
        for number in range(len(ground.nodes.urls)):
            await ground.nodes.stop(number)
            await ground.nodes.complete()
    return feeds.play.outcome(f"rolling restart of three nodes, while {_WHAT}")
