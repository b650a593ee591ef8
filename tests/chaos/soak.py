"""A long run: `python -m tests.chaos.soak --minutes 30 [--write docs/reliability.md]`.

One node, one service of two workers, twenty walkers, updates all the time and a rebuild every few minutes.
"""

import argparse
import asyncio
import os
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import uvloop

from cluster.connection import connect
from embedded import NodeOptions
from indexer import IndexerContext, IndexerSettings
from tests.chaos.cluster_nodes import running
from tests.chaos.expected_pages import ExpectedFeeds
from tests.chaos.loaded_service import load_cluster
from tests.chaos.process_memory import MemorySamples, family
from tests.chaos.record_history import ChangingOracle, RecordHistory
from tests.chaos.report import concluded
from tests.chaos.results import ChaosResults
from tests.chaos.scenario_cluster import FULL, ScenarioCluster
from tests.chaos.scenario_result import ScenarioResult
from tests.chaos.scenario_run import ScenarioRun, run_scenario
from tests.chaos.source_changes import SourceChanger

_REBUILD_SECONDS = 180.0
_SEED = 20261121
_GROWTH = 0.1  # of the memory of a process of the service, from when it has settled to the end
_FEEDS = ("listings", "sold_listings")


async def soak(minutes: float) -> ScenarioResult:
    """Read and change for this number of minutes; return the result."""
    options = NodeOptions(ephemeral=True)
    async with running(options) as nodes, load_cluster(nodes.urls, FULL.listings) as stage:
        truth = ExpectedFeeds.of(stage.source)
        return await _soaked(ScenarioCluster(nodes, stage, truth, FULL), minutes * 60)


async def _soaked(ground: ScenarioCluster, seconds: float) -> ScenarioResult:
    histories = {feed: RecordHistory.of(ground.truth.source[feed]) for feed in _FEEDS}
    judge, memory = ChangingOracle([ground.truth], histories=histories), MemorySamples()
    rebuild_seconds = min(_REBUILD_SECONDS, seconds / 3)
    async with _changer(ground, histories, rebuild_seconds) as changer, run_scenario(ground, judge=judge) as play:
        pids = partial(_pids, play)
        changing, watching = asyncio.create_task(changer.run()), asyncio.create_task(memory.watch(pids))
        await asyncio.wait([changing, watching], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        changer.stopping = True
        await changing
        watching.cancel()
        _weigh(play, memory, changer)
    play.unfailing("while records changed")
    play.punctual()
    return play.outcome(f"{seconds / 60:g} minutes of updates and rebuilds, no fault")


@asynccontextmanager
async def _changer(
    ground: ScenarioCluster, histories: dict[str, RecordHistory], rebuild_seconds: float
) -> AsyncIterator[SourceChanger]:
    connection, companies = ground.stage.connection, ground.truth.source["companies"]
    settings = IndexerSettings(dead_letter_folder=str(ground.stage.source / "dead-letters"))
    chance = random.Random(_SEED)  # noqa: S311 - the same changes in every run
    async with connect(connection, connections=8, timeout=120) as client:
        yield SourceChanger(IndexerContext(client, connection, settings), histories, companies, chance, rebuild_seconds)


def _pids(play: ScenarioRun) -> dict[str, int]:
    others = {"Elasticsearch": play.ground.nodes.pid(0), "consumers and indexer": os.getpid()}
    return family("service", play.serving.process.pid) | others


def _weigh(play: ScenarioRun, memory: MemorySamples, changer: SourceChanger) -> None:
    """Record the work and the growth of each process; those of the service must not grow."""
    play.figures["updates, rebuilds"] = f"{changer.updates}, {changer.rebuilds}"
    play.must(changer.updates > 0 and changer.rebuilds > 0, "nothing was changed")
    for name in memory.samples:
        slope, grown, held = memory.slope(name), memory.grown(name), memory.settled(name)[-1][1]
        play.figures[f"memory, {name}"] = f"{held:.0f} MB, {slope:+.1f} MB/hour"
        is_flat = grown <= _GROWTH or not name.startswith("service")
        play.timely(is_flat, f"{name} grew by {100 * grown:.0f} %")


def main() -> int:
    """Run, print and write; the exit code is 1 after a violation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--write", type=Path, metavar="PAGE", help="page that the row is written to")
    given = parser.parse_args()
    started, played = time.monotonic(), ChaosResults()
    played.take("soak", uvloop.run(soak(given.minutes)), time.monotonic() - started)
    return concluded(played, given.write)


if __name__ == "__main__":
    sys.exit(main())
