"""The cluster and the limits that every scenario is given."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.chaos.cluster_nodes import ClusterNodes, three_nodes
from tests.chaos.expected_pages import ExpectedFeeds
from tests.chaos.loaded_service import LoadedCluster, load_cluster


@dataclass(frozen=True, kw_only=True)
class ScenarioScale:
    """The extent of a scenario; all times are in seconds."""

    listings: int
    workers: int  # processes of the service
    walkers: int
    pause: float  # between an answer and the next request of a walker
    before: float  # of reading before a fault
    during: float  # of a fault that lasts
    after: float  # of reading after a fault
    least: int  # requests in all, which a slow machine may need longer for
    deadline: float  # the service's own
    swaps: int  # of an alias
    is_timed: bool  # whether a figure in seconds that is missed is a violation


FULL = ScenarioScale(
    listings=1500,
    workers=2,
    walkers=20,
    pause=0.15,
    before=12,
    during=30,
    after=12,
    least=0,
    deadline=10.0,
    swaps=200,
    is_timed=True,
)
# For `make check`: everything happens, but briefly, and no times are checked, since a busy machine is not a defect.
SHORT = ScenarioScale(
    listings=160,
    workers=1,
    walkers=11,
    pause=0.15,
    before=0.7,
    during=3,
    after=1.0,
    least=60,
    deadline=4.0,
    swaps=40,
    is_timed=False,
)


@dataclass(frozen=True)
class ScenarioCluster:
    """A loaded cluster of three, and the source of its data."""

    nodes: ClusterNodes
    stage: LoadedCluster
    truth: ExpectedFeeds
    extent: ScenarioScale


@asynccontextmanager
async def scenario_cluster(extent: ScenarioScale) -> AsyncIterator[ScenarioCluster]:
    """Start a cluster, load it, and wait until all replicas are allocated."""
    async with three_nodes() as nodes, load_cluster(nodes.urls, extent.listings) as stage:
        await nodes.whole()
        yield ScenarioCluster(nodes, stage, ExpectedFeeds.of(stage.source), extent)
