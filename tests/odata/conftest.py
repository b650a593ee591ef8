"""The service over generated data, and over a small market that tests change."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from aiohttp import ClientSession

from mappings import AGENT, COMPANY, LISTING, OFFICE, SOLD_LISTING, TEAM, Resource
from service.app import create_app
from service.services import SERVICES
from service.settings import ServiceSettings
from tests.contract.conftest import world
from tests.contract.world import World
from tests.feed.conftest import serve_feed
from tests.feed.feed_client import JsonObject, company, listing, office
from tests.indexer.conftest import Bench, bench, module_bench
from tests.odata.odata_client import ODataClient
from tests.records import envelope
from tests.service.raw_http import listening

__all__ = ["bench", "market", "module_bench", "odata", "unchanged", "world"]

SHARED_KEY = "D1"


@pytest.fixture
def odata(world: World) -> ODataClient:
    return ODataClient(world.http.session, str(world.http.make_url("")), world.keys)


@pytest.fixture
async def odata_over_socket(world: World) -> AsyncIterator[ODataClient]:
    """The same behind connections of the service's own, which take long lines; wrong keys are not counted."""
    app = world.http.app
    assert app is not None
    settings = ServiceSettings(failures_per_minute=0, refusals_per_minute=0)
    async with listening(create_app(settings, app[SERVICES].connection), settings) as port, ClientSession() as session:
        yield ODataClient(session, f"http://127.0.0.1:{port}", world.keys)


@dataclass(frozen=True)
class MarketClient(ODataClient):
    """A small market that its indexer changes."""

    bench: Bench

    async def update(self, *lines: JsonObject, resource: Resource = LISTING) -> None:
        assert (await self.bench.update({resource: lines})).exit_code == 0

    async def last_event_number(self, key: str = "all") -> int:
        page = await self.page("EntityEvent", key, orderby="EntityEventSequence desc", top=1)
        return int(page["value"][0]["EntityEventSequence"])


def sold(identifier: str, of: str, *, price: int = 1) -> JsonObject:
    record = {"PlatformListingId": identifier, "SoldPrice": price, "Status": "Sold", "OnMarket": False}
    return envelope(SOLD_LISTING, record, platform_company_id=of)


def agent(identifier: str, of: str, **changes: object) -> JsonObject:
    return envelope(AGENT, {"agent_uuid": identifier, "uuid": identifier}, platform_company_id=of, **changes)


@asynccontextmanager
async def open_market(bench: Bench) -> AsyncIterator[MarketClient]:
    """Index six listings and six sold ones of the companies a and b, one key in both; offices, agents, a team."""
    lines: dict[Resource, list[JsonObject]] = {
        COMPANY: [company(key) for key in "abc"],
        OFFICE: [office("O1", "a"), office("O2", "b")],
        AGENT: [agent("0b0e6d3c-5f0d-4f35-9d3c-111111111111", "a"), agent("0b0e6d3c-5f0d-4f35-9d3c-222222222222", "b")],
        TEAM: [envelope(TEAM, {"uuid": "T1"}, platform_company_id="a")],
        LISTING: [
            *(listing(f"L{at}", "ab"[at % 2], at, price=at) for at in range(5)),
            listing(SHARED_KEY, "a", price=9),
        ],
        SOLD_LISTING: [*(sold(f"S{at}", "ab"[at % 2], price=at) for at in range(5)), sold(SHARED_KEY, "a", price=8)],
    }
    assert (await bench.build(lines)).exit_code == 0
    async with serve_feed(bench) as feed:
        yield MarketClient(feed.http.session, str(feed.http.make_url("")), feed.keys, bench)


@pytest.fixture
async def market(bench: Bench) -> AsyncIterator[MarketClient]:
    async with open_market(bench) as market:
        yield market


@pytest.fixture(scope="module")
async def unchanged(module_bench: Bench) -> AsyncIterator[MarketClient]:
    async with open_market(module_bench) as market:
        yield market
