"""The alias of the listings is swapped between two generations while they are read."""

from __future__ import annotations

import copy
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from cluster.connection import connect
from indexer import Engine, IndexerSettings, open_source, reindex
from mappings import LISTING
from tests.chaos.index_faults import live, point
from tests.chaos.judge import Judge
from tests.chaos.play import playing
from tests.chaos.truth import Truth
from tests.chaos.walks import walks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.chaos.ground import Ground
    from tests.chaos.outcome import Outcome

_MISSING = 10  # each tenth listing of the first generation is not in the second


async def swapped(ground: Ground) -> Outcome:
    """Swap again and again: every request is answered, every page is of one generation and of none else."""
    extent, first = ground.extent, await live(ground)
    other = _other(ground.truth)
    judge = Judge([ground.truth, other])
    # The clock of a record that differs is the indexer's, so the form that shows clocks has no truth here.
    chosen = [walk for walk in walks(ground.truth, extent.walkers) if not walk.brief]
    async with _generation(ground, other, first) as second, playing(ground, judge=judge, chosen=chosen) as play:
        for number in range(extent.swaps):
            old, new = (second, first) if number % 2 else (first, second)
            await point(ground, new, old)
            await play.read(extent.during / extent.swaps)
        if extent.swaps % 2:
            await point(ground, first, second)
        play.unfailing("while the alias was swapped")
    play.punctual()
    return play.outcome(f"the alias of the listings is swapped {extent.swaps} times")


def _other(truth: Truth) -> Truth:
    """Return a generation in which every listing has another title, and some are missing."""
    listings = [copy.deepcopy(one) for number, one in enumerate(truth.source["listings"]) if number % _MISSING]
    for envelope in listings:
        envelope["record"]["PublicTitle"] = "of the second generation"
    return Truth({**truth.source, "listings": listings})


@asynccontextmanager
async def _generation(ground: Ground, truth: Truth, first: str) -> AsyncIterator[str]:
    """Build a second generation as the indexer does; the alias names the first one before and behind."""
    await _build(ground, truth)
    second = await live(ground)
    await point(ground, first, second)
    await ground.nodes.whole()
    try:
        yield second
    finally:
        await ground.nodes.client.indices.delete(index=second)


async def _build(ground: Ground, truth: Truth) -> None:
    connection = ground.stage.connection
    with tempfile.TemporaryDirectory() as name:
        for resource in ("companies", "listings"):
            lines = [orjson.dumps(envelope) + b"\n" for envelope in truth.source[resource]]
            (Path(name) / f"{resource}.ndjson").write_bytes(b"".join(lines))
        settings = IndexerSettings(dead_letter_folder=name)
        async with connect(connection, connections=4, timeout=60) as client:
            with open_source(name) as source:
                summary = await reindex(Engine(client, connection, settings), source, resources=[LISTING], force=True)
    if summary.exit_code:
        raise RuntimeError("The second generation was not loaded.")
