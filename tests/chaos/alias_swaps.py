"""Alias swaps between two generations of the listings during reads."""

import copy
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson

from cluster.connection import connect
from indexer import IndexerContext, IndexerSettings, RebuildRequest, open_source, reindex
from mappings import LISTING
from tests.chaos.expected_pages import ExpectedFeeds
from tests.chaos.index_faults import live, point
from tests.chaos.page_oracle import PageOracle
from tests.chaos.scenario_cluster import ScenarioCluster
from tests.chaos.scenario_result import ScenarioResult
from tests.chaos.scenario_run import run_scenario
from tests.chaos.walk_specs import mixed_walks

_MISSING = 10  # each tenth listing of the first generation is not in the second


async def swapped(ground: ScenarioCluster) -> ScenarioResult:
    """Swap repeatedly: every request succeeds, and every page is from exactly one generation."""
    extent, first = ground.extent, await live(ground)
    other = _other(ground.truth)
    judge = PageOracle([ground.truth, other])
    # The clock of a record that differs is the indexer's, so the form that shows clocks has no truth here.
    chosen = [walk for walk in mixed_walks(ground.truth, extent.walkers) if not walk.brief]
    async with _generation(ground, other, first) as second, run_scenario(ground, judge=judge, chosen=chosen) as play:
        for number in range(extent.swaps):
            old, new = (second, first) if number % 2 else (first, second)
            await point(ground, new, old)
            await play.read(extent.during / extent.swaps)
        if extent.swaps % 2:
            await point(ground, first, second)
        play.unfailing("while the alias was swapped")
    play.punctual()
    return play.outcome(f"the alias of the listings is swapped {extent.swaps} times")


def _other(truth: ExpectedFeeds) -> ExpectedFeeds:
    """Return a generation in which every listing has a different title, and some are missing."""
    listings = [copy.deepcopy(one) for number, one in enumerate(truth.source["listings"]) if number % _MISSING]
    for envelope in listings:
        envelope["record"]["PublicTitle"] = "of the second generation"
    return ExpectedFeeds({**truth.source, "listings": listings})


@asynccontextmanager
async def _generation(ground: ScenarioCluster, truth: ExpectedFeeds, first: str) -> AsyncIterator[str]:
    """Build a second generation as the indexer does; the alias points to the first before and after."""
    await _build(ground, truth)
    second = await live(ground)
    await point(ground, first, second)
    await ground.nodes.whole()
    try:
        yield second
    finally:
        await ground.nodes.client.indices.delete(index=second)


async def _build(ground: ScenarioCluster, truth: ExpectedFeeds) -> None:
    connection = ground.stage.connection
    with tempfile.TemporaryDirectory() as name:
        for resource in ("companies", "listings"):
            lines = [orjson.dumps(envelope) + b"\n" for envelope in truth.source[resource]]
            (Path(name) / f"{resource}.ndjson").write_bytes(b"".join(lines))
        settings = IndexerSettings(dead_letter_folder=name)
        async with connect(connection, connections=4, timeout=60) as client:
            with open_source(name) as source:
                summary = await reindex(
                    IndexerContext(client, connection, settings), source, RebuildRequest([LISTING], force=True)
                )
    if summary.exit_code:
        raise RuntimeError("The second generation was not loaded.")
