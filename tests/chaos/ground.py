"""What every scenario is given, and how long it may take."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.chaos.nodes import three_nodes
from tests.chaos.stage import staged
from tests.chaos.truth import Truth

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.chaos.nodes import Nodes
    from tests.chaos.stage import Stage


@dataclass(frozen=True, kw_only=True)
class Extent:
    """How much is done; all times are in seconds."""

    listings: int
    workers: int  # processes of the service
    walkers: int
    pause: float  # between an answer and the next request of a walker
    before: float  # of reading before a fault
    during: float  # of a fault that lasts
    after: float  # of reading after a fault
    deadline: float  # the service's own
    swaps: int  # of an alias
    is_timed: bool  # whether a figure in seconds that is missed is a violation


FULL = Extent(
    listings=1500,
    workers=2,
    walkers=20,
    pause=0.15,
    before=12,
    during=30,
    after=12,
    deadline=10.0,
    swaps=200,
    is_timed=True,
)
# For `make test`: everything happens, nothing for long, and no time is judged, since a busy machine is no defect.
SHORT = Extent(
    listings=160,
    workers=1,
    walkers=11,
    pause=0.05,
    before=0.7,
    during=3,
    after=1.0,
    deadline=4.0,
    swaps=40,
    is_timed=False,
)


@dataclass(frozen=True)
class Ground:
    """A cluster of three with data in it, and what that data is."""

    nodes: Nodes
    stage: Stage
    truth: Truth
    extent: Extent


@asynccontextmanager
async def grounded(extent: Extent) -> AsyncIterator[Ground]:
    """Start a cluster, load it, and wait until every shard has its replica."""
    async with three_nodes() as nodes, staged(nodes.urls, extent.listings) as stage:
        await nodes.whole()
        yield Ground(nodes, stage, Truth.of(stage.source), extent)
