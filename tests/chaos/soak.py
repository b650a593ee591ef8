"""A long run: `python -m tests.chaos.soak --minutes 30 [--write docs/reliability.md]`.

One node, one service of two workers, twenty walkers, updates all the time and a rebuild every few minutes.
"""

import argparse
import asyncio
import os
import sys
import time
from pathlib import Path

import uvloop

from embedded import NodeOptions
from tests.simulation.history import ChangingOracle, SourceChanger, changing_source
from tests.simulation.nodes import running
from tests.simulation.results import ChaosResults, ScenarioResult, concluded
from tests.simulation.scenario import FULL, Ground, ScenarioRun, ground_at, run_scenario
from tests.simulation.usage import MemorySamples, family

_REBUILD_SECONDS = 180.0
_SEED = 20261121
_GROWTH = 0.1  # of the memory of a process of the service, from when it has settled to the end


async def soak(minutes: float) -> ScenarioResult:
    async with running(NodeOptions(ephemeral=True)) as nodes, ground_at(nodes.urls, FULL) as ground:
        return await _soaked(ground, minutes * 60, nodes.pid(0))


async def _soaked(ground: Ground, seconds: float, engine: int) -> ScenarioResult:
    memory = MemorySamples()
    rebuild_seconds = min(_REBUILD_SECONDS, seconds / 3)
    async with changing_source(ground.stage, rebuild_seconds, seed=_SEED) as changer:
        judge = ChangingOracle([ground.truth], histories=changer.histories)
        async with run_scenario(ground, judge=judge) as play:
            others = {"Elasticsearch": engine, "consumers and indexer": os.getpid()}
            watching = asyncio.create_task(memory.watch(lambda: family("service", play.serving.pid) | others))
            await asyncio.wait([changer.begin(), watching], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            await changer.stop()
            watching.cancel()
            _weigh(play, memory, changer)
    play.unfailing("while records changed")
    play.punctual()
    return play.outcome(f"{seconds / 60:g} minutes of updates and rebuilds, no fault")


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--write", type=Path, metavar="PAGE", help="page that the row is written to")
    given = parser.parse_args()
    started, played = time.monotonic(), ChaosResults()
    played.take("soak", uvloop.run(soak(given.minutes)), time.monotonic() - started)
    return concluded(played, given.write)


if __name__ == "__main__":
    sys.exit(main())
