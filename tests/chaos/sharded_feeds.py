"""Feeds in several shards, which change while they are read; at the end every record is compared with the source."""

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from cluster.connection import connect
from indexer import IndexerContext, IndexerSettings, open_source
from indexer.verify.verification import verify_against_source
from mappings import COMPANY, LISTING, SOLD_LISTING
from tests.chaos.change_follower import following
from tests.chaos.expected_pages import ExpectedFeeds
from tests.chaos.loaded_service import load_cluster
from tests.chaos.record_history import ChangingOracle, RecordHistory
from tests.chaos.scenario_cluster import ScenarioCluster
from tests.chaos.scenario_run import ScenarioRun, run_scenario
from tests.chaos.source_changes import SourceChanger, write_lines

SHARDS = 5
FEEDS = (LISTING, SOLD_LISTING)
_REQUESTED = ("companies=2", *(f"{feed.alias}={SHARDS}" for feed in FEEDS))
_PATIENCE_SECONDS = 900.0  # with a lost node, which takes long to restart on a busy machine
_LOOK_SECONDS = 0.1
_NEVER = float("inf")
_SEED = 20261124
_SETTLED_SECONDS = 2.0  # a watermark is at most that old


@asynccontextmanager
async def in_shards(ground: ScenarioCluster) -> AsyncIterator[ScenarioCluster]:
    """Load feeds in five shards, each with a replica, onto the same nodes."""
    async with load_cluster(ground.nodes.urls, ground.extent.listings, _REQUESTED, (COMPANY, *FEEDS)) as stage:
        await ground.nodes.whole()
        yield replace(ground, stage=stage, truth=ExpectedFeeds.of(stage.source))


@dataclass
class ShardedFeeds:
    """Feeds that are read and changed all the time."""

    play: ScenarioRun
    changer: SourceChanger

    @property
    def context(self) -> IndexerContext:
        """What the indexer works with."""
        return self.changer.engine

    async def updated(self, runs: int) -> None:
        """Wait until so many more updates were published."""
        until = self.changer.updates + runs
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while self.changer.updates < until:  # noqa: ASYNC110 - the changer sets no event
                await asyncio.sleep(_LOOK_SECONDS)

    @property
    def live(self) -> list[str]:
        """The aliases of the feeds."""
        return [self.context.connection.alias(feed) for feed in FEEDS]


@asynccontextmanager
async def changing_feeds(ground: ScenarioCluster) -> AsyncIterator[ShardedFeeds]:
    """Read and change the feeds; afterwards, compare the index and a copy that follows `/changes` with the source."""
    histories = {feed.alias: RecordHistory.of(ground.truth.source[feed.alias]) for feed in FEEDS}
    judge = ChangingOracle([ground.truth], histories=histories)
    async with _changer(ground, histories) as changer, run_scenario(ground, judge=judge) as play:
        async with following(play.serving.url, ground.stage.key) as follower:
            working = asyncio.create_task(changer.run())
            try:
                yield ShardedFeeds(play, changer)
                await play.read(ground.extent.after)
            finally:
                changer.stopping = True
                await working
            play.figures["updates meanwhile"] = str(changer.updates)
            await asyncio.sleep(_SETTLED_SECONDS)
            copy = await follower.finish()
        for feed in FEEDS:
            true = {str(one["record"]["PlatformListingId"]): one["record"] for one in histories[feed.alias].current()}
            play.must(copy[feed.alias] == true, f"the copy of {feed.alias} {_differences(copy[feed.alias], true)}")
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


@asynccontextmanager
async def _changer(ground: ScenarioCluster, histories: dict[str, RecordHistory]) -> AsyncIterator[SourceChanger]:
    connection = ground.stage.connection
    settings = IndexerSettings(
        dead_letter_folder=str(ground.stage.source / "dead-letters"),
        shards=_REQUESTED,
        retry_seconds=_PATIENCE_SECONDS,
    )
    chance = random.Random(_SEED)  # noqa: S311 - the same changes in every run
    async with connect(connection, connections=8, timeout=120) as client:
        context = IndexerContext(client, connection, settings)
        yield SourceChanger(context, histories, ground.truth.source["companies"], chance, _NEVER)
