"""A long run: `python -m tests.chaos.soak --minutes 30 [--write docs/reliability.md]`.

One node, one service of two workers, twenty walkers, updates all the time and a rebuild every few minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from cluster.connection import connect
from embedded import NodeOptions
from indexer import Engine, IndexerSettings
from tests.chaos.changes import Changer
from tests.chaos.ground import FULL, Ground
from tests.chaos.history import ChangingJudge, History
from tests.chaos.memory import Memory, family
from tests.chaos.nodes import running
from tests.chaos.play import playing
from tests.chaos.report import concluded
from tests.chaos.results import Results
from tests.chaos.stage import staged
from tests.chaos.truth import Truth

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.chaos.outcome import Outcome
    from tests.chaos.play import Play

_REBUILD_SECONDS = 180.0
_SEED = 20261121
_GROWTH = 0.1  # of the memory of a process of the service, from when it has settled to the end
_FEEDS = ("listings", "sold_listings")


async def soak(minutes: float) -> Outcome:
    """Read and change for so many minutes; return what was found."""
    options = NodeOptions(ephemeral=True)
    async with running(options) as nodes, staged(nodes.urls, FULL.listings) as stage:
        truth = Truth.of(stage.source)
        return await _soaked(Ground(nodes, stage, truth, FULL), minutes * 60)


async def _soaked(ground: Ground, seconds: float) -> Outcome:
    histories = {feed: History.of(ground.truth.source[feed]) for feed in _FEEDS}
    judge, memory = ChangingJudge([ground.truth], histories=histories), Memory()
    rebuild_seconds = min(_REBUILD_SECONDS, seconds / 3)
    async with _changer(ground, histories, rebuild_seconds) as changer, playing(ground, judge=judge) as play:
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
async def _changer(ground: Ground, histories: dict[str, History], rebuild_seconds: float) -> AsyncIterator[Changer]:
    connection, companies = ground.stage.connection, ground.truth.source["companies"]
    settings = IndexerSettings(dead_letter_folder=str(ground.stage.source / "dead-letters"))
    chance = random.Random(_SEED)  # noqa: S311 - the same changes in every run
    async with connect(connection, connections=8, timeout=120) as client:
        yield Changer(Engine(client, connection, settings), histories, companies, chance, rebuild_seconds)


def _pids(play: Play) -> dict[str, int]:
    others = {"Elasticsearch": play.ground.nodes.pid(0), "consumers and indexer": os.getpid()}
    return family("service", play.serving.process.pid) | others


def _weigh(play: Play, memory: Memory, changer: Changer) -> None:
    """Note what was done and how each process grew; those of the service must not."""
    play.figures["updates, rebuilds"] = f"{changer.updates}, {changer.rebuilds}"
    play.must(changer.updates > 0 and changer.rebuilds > 0, "nothing was changed")
    for name in memory.samples:
        slope, grown, held = memory.slope(name), memory.grown(name), memory.settled(name)[-1][1]
        play.figures[f"memory, {name}"] = f"{held:.0f} MB, {slope:+.1f} MB/hour"
        is_flat = grown <= _GROWTH or not name.startswith("service")
        play.timely(is_flat, f"{name} grew by {100 * grown:.0f} %")


def main() -> int:
    """Run, print, write; the exit code is 1 when anything was violated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--write", type=Path, metavar="PAGE", help="page that the row is written to")
    given = parser.parse_args()
    started, played = time.monotonic(), Results()
    played.take("soak", uvloop.run(soak(given.minutes)), time.monotonic() - started)
    return concluded(played, given.write)


if __name__ == "__main__":
    sys.exit(main())
