"""Faults of nodes while feeds in five shards are read, changed, built, swapped, compacted and moved.

At the end every record is compared with the source.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import cluster.index_state as index_fragmentation
import indexer.maintenance.compaction as cluster_load
from indexer import CompactionOutcome, ResourceReport, RunStage, compact, open_source
from indexer.maintenance.compaction import MergeTasks
from indexer.verify.verification import verify_against_source
from mappings import COMPANY
from tests.simulation.copies import following
from tests.simulation.history import FEEDS, ChangingOracle, SourceChanger, changing_source, write_lines
from tests.simulation.nodes import ClusterNodes
from tests.simulation.oracle import ExpectedFeeds
from tests.simulation.results import ScenarioResult
from tests.simulation.scenario import ScenarioCluster, ScenarioRun, run_scenario
from tests.simulation.services import load_cluster

_SHARDS = 5
_REQUESTED = ("companies=2", *(f"{feed.alias}={_SHARDS}" for feed in FEEDS))
WHAT = f"feeds in {_SHARDS} shards are read and updated"
_FRAGMENTING_RUNS = 3
_PATIENCE_SECONDS = 900.0  # with a lost node, which takes long to restart on a busy machine
_LOOK_SECONDS = 0.1
_SEED = 20261124
_SETTLED_SECONDS = 2.0  # a watermark is at most that old


@dataclass
class ShardedFeeds:
    play: ScenarioRun
    nodes: ClusterNodes
    changer: SourceChanger

    async def updated(self, runs: int) -> None:
        """Wait until so many more updates were published."""
        until = self.changer.updates + runs
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while self.changer.updates < until:  # noqa: ASYNC110 - the changer sets no event
                await asyncio.sleep(_LOOK_SECONDS)


ShardedFault = Callable[[ShardedFeeds], Awaitable[None]]


async def sharded(ground: ScenarioCluster, fault: ShardedFault, text: str) -> ScenarioResult:
    """Play a fault on feeds in five shards, each with a replica, on the nodes of a cluster."""
    async with load_cluster(ground.nodes.urls, ground.extent.listings, _REQUESTED, (COMPANY, *FEEDS)) as stage:
        await ground.nodes.whole()
        own = replace(ground, stage=stage, truth=ExpectedFeeds.of(stage.source))
        async with _changing_feeds(own) as feeds:
            await fault(feeds)
            await ground.nodes.complete()
    return feeds.play.outcome(f"{text}, while {WHAT}")


@asynccontextmanager
async def _changing_feeds(ground: ScenarioCluster) -> AsyncIterator[ShardedFeeds]:
    """Read and change the feeds; afterwards, compare the index and a copy that follows `/changes` with the source."""
    async with changing_source(ground.stage, seed=_SEED, shards=_REQUESTED, retry_seconds=_PATIENCE_SECONDS) as changer:
        judge = ChangingOracle([ground.truth], histories=changer.histories)
        async with run_scenario(ground, judge=judge) as play:
            async with following(play.serving.url, ground.stage.key) as followers:
                changer.begin()
                try:
                    yield ShardedFeeds(play, ground.nodes, changer)
                    await play.read(ground.extent.after)
                finally:
                    await changer.stop()
                play.figures["updates meanwhile"] = str(changer.updates)
                await asyncio.sleep(_SETTLED_SECONDS)
                copy = await followers.finish()
            for alias, history in changer.histories.items():
                true = {str(one["record"]["PlatformListingId"]): one["record"] for one in history.current()}
                play.must(copy[alias] == true, f"the copy of {alias} {_differences(copy[alias], true)}")
            for sentence in await _verified(changer):
                play.must(False, sentence)


def _differences(copied: dict[str, object], true: dict[str, object]) -> str:
    lacking, extra = true.keys() - copied.keys(), copied.keys() - true.keys()
    other = [name for name in copied.keys() & true.keys() if copied[name] != true[name]]
    return f"lacks {len(lacking)}, has {len(extra)} too many and {len(other)} others: {[*lacking, *extra, *other][:3]}"


async def _verified(changer: SourceChanger) -> list[str]:
    """Compare the live indices with all records of the source, as `brokerage index verify --full` does."""
    current = {alias: history.current() for alias, history in changer.histories.items()}
    with tempfile.TemporaryDirectory(prefix="brokerage-verify-") as folder:
        write_lines(Path(folder), {"companies": changer.companies, **current})
        with open_source(folder) as source:
            results = await verify_against_source(changer.engine, source, FEEDS, is_full=True)
    return [f"verify: {result}" for result in results if not result.is_equal]


def killed_in(stage: RunStage, choose: Callable[[ClusterNodes, str], Awaitable[int]]) -> ShardedFault:
    """Return a fault that kills the chosen node, given the alias of the listings, at a stage of a rebuild."""

    async def fault(feeds: ShardedFeeds) -> None:
        number = await choose(feeds.nodes, feeds.changer.engine.connection.alias(FEEDS[0]))
        killed = asyncio.Event()

        def on_progress(report: ResourceReport) -> None:
            if report.stage is stage and not killed.is_set():
                killed.set()
                feeds.nodes.kill(number)

        rebuild = asyncio.create_task(feeds.changer.rebuild(on_progress))
        waiting = asyncio.create_task(killed.wait())
        await asyncio.wait({rebuild, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        await feeds.nodes.recovered_from_loss()
        await feeds.nodes.complete()
        await rebuild
        feeds.play.must(killed.is_set(), f"the rebuild was never {stage.value}")

    return fault


async def killed_in_walk(feeds: ShardedFeeds) -> None:
    """Kill each node in turn, while nothing else happens than walks and updates."""
    for number in range(len(feeds.nodes.urls)):
        feeds.nodes.kill(number)
        await feeds.play.read(feeds.play.ground.extent.during / 2)
        await feeds.nodes.complete()


async def killed_in_compaction(feeds: ShardedFeeds) -> None:
    """Kill the node that has begun to merge a feed, and in the next merge another one."""
    await feeds.updated(_FRAGMENTING_RUNS)
    start, nodes = MergeTasks.start, feeds.nodes

    async def start_and_kill(tasks: MergeTasks, index: str) -> str:
        task = await start(tasks, index)
        if len(killed) < len(FEEDS):
            # One node at a time: two of three would be all copies of some shards.
            await asyncio.gather(*returning)
            number = await nodes.number(task.partition(":")[0])
            killed.append(number if not killed else (number + 1) % len(nodes.urls))
            nodes.kill(killed[-1])
            returning.append(asyncio.create_task(nodes.complete()))
        return task

    killed, returning = list[int](), list[asyncio.Task[None]]()
    with (
        patch.object(MergeTasks, "start", start_and_kill),
        patch.object(index_fragmentation, "MAX_SEGMENTS", 1),
        patch.object(cluster_load, "MAX_LOAD", 100),
    ):
        done = await compact(feeds.changer.engine, FEEDS)
    await asyncio.gather(*returning)
    feeds.play.must(len(killed) == len(FEEDS), f"only {len(killed)} merges began")
    for compaction in done:
        is_done = compaction.outcome is CompactionOutcome.COMPACTED
        feeds.play.must(is_done, f"{compaction.resource} was not compacted: {compaction}")


async def moved(feeds: ShardedFeeds) -> None:
    """Add a node, to which shards are moved, and move them back before it is removed."""
    number = await feeds.nodes.add()
    await feeds.play.read(feeds.play.ground.extent.during / 2)
    # Elasticsearch begins to move them some time after a node has joined.
    moved_shards = await feeds.nodes.shards_on(number)
    feeds.play.figures["shards on the new node"] = str(moved_shards)
    feeds.play.must(moved_shards > 0, "no shard was moved to the new node")
    await feeds.nodes.remove_last()
    await feeds.play.read(feeds.play.ground.extent.during / 2)
    feeds.play.unfailing("while shards moved")


async def restarted_in_turn(feeds: ShardedFeeds) -> None:
    """Restart each node, as an upgrade does."""
    for number in range(len(feeds.nodes.urls)):
        await feeds.nodes.stop(number)
        await feeds.nodes.complete()
