"""A service over a stand-in that holds two listings, without caches."""

from collections.abc import AsyncIterator

import pytest
from msgspec import to_builtins

from cluster.connection import ConnectionSettings
from cluster.control_index import Mark
from service.search.cached_value import CacheAges
from tests.console.console_service import ConsoleService, MovableClock, serve_console
from tests.internals import Internals
from tests.service.conftest import stand_in as empty_stand_in
from tests.service.stand_in import StandIn
from tests.site.conftest import browser

__all__ = ["browser", "empty_stand_in"]

# The clock of the tests, and the mark of the listings three minutes before.
NOON = 1_773_489_600.0
PUBLISHED = NOON - 180

# What the indexer keeps of a run that brought a change of 90 seconds before, and of a build that is not over.
LAST = {"verb": "reindex", "at": int(PUBLISHED * 1000), "newest": int(PUBLISHED * 1000) - 90_000, "dead": 0}
BUILD = {"candidate": "listings-v0002", "phase": "loading", "line": 1200, "refusal": None}


def publish(stand_in: StandIn, moment: float, sequence: int) -> None:
    """Store the mark of the listings."""
    mark = Mark(clock=int(moment * 1000), sequence=sequence, epoch=0, generation="listings-v0001")
    stand_in.documents["control", "mark-listings"] = to_builtins(mark)


@pytest.fixture
def stand_in(empty_stand_in: StandIn) -> StandIn:
    """The stand-in for Elasticsearch."""
    empty_stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")
    for name in ("L1", "L2"):
        empty_stand_in.add("listings", name, {"PlatformListingId": name})
    empty_stand_in.indices["listings-v0001"]["mappings"]["_meta"]["replaces"] = "listings-v0000"
    publish(empty_stand_in, PUBLISHED, sequence=17)
    return empty_stand_in


@pytest.fixture
def key(stand_in: StandIn) -> str:
    """A key for all companies."""
    return stand_in.grant(name="North portal")


@pytest.fixture
def at_once(internals: Internals) -> None:
    """Cache nothing, and find no process late, slow or away: a busy machine is not a defect."""
    internals(
        console_ages=CacheAges(0.0, 0.0),
        console_slow_loop_seconds=float("inf"),
        console_slow_p99_seconds=float("inf"),
        console_timeout_seconds=60.0,
        cache_refresh_timeout_seconds=60.0,
    )


@pytest.fixture
async def operating(stand_in: StandIn, key: str, at_once: None) -> AsyncIterator[ConsoleService]:  # noqa: ARG001
    """The service at noon."""
    connection = ConnectionSettings(url=(stand_in.url,))
    async with serve_console(connection, MovableClock(NOON), fresh_seconds=0.0, stale_seconds=0.0) as opened:
        yield opened
