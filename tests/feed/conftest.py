"""The service over an installation that tests index into, with a key for each scope."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from aiohttp.test_utils import TestClient, TestServer

from mappings import COMPANY, LISTING, OFFICE
from service.app import create_app
from service.keys.store import KeyGrant, KeyStore
from service.settings import ServiceSettings
from tests.feed.feed_client import FeedClient, company, listing, office
from tests.indexer.conftest import Bench, bench, module_bench

__all__ = ["bench", "feed", "module_bench", "unchanged"]

# Marks are read for every request: published changes are visible at once.
SETTINGS = ServiceSettings(fresh_seconds=0.0, stale_seconds=0.0, deadline_seconds=300.0)
GRANTS = {
    "a": KeyGrant("a", companies=("a",), rate=None),
    "b": KeyGrant("b", companies=("b",), rate=None),
    "ab": KeyGrant("ab", companies=("a", "b"), rate=None),
    "all": KeyGrant("all", all_companies=True, rate=None),
    "poor": KeyGrant("poor", companies=("a",), rate=None, fields=()),
}


@asynccontextmanager
async def open_feed(bench: Bench) -> AsyncIterator[FeedClient]:
    """Index six listings and two offices of the companies a and b, and run the service over them."""
    lines = [listing(f"L{at}", "ab"[at % 2], price=at) for at in range(6)]
    companies = [company(key) for key in "abc"]
    summary = await bench.build({COMPANY: companies, LISTING: lines, OFFICE: [office("O1", "a"), office("O2", "b")]})
    assert summary.exit_code == 0
    async with serve_feed(bench) as feed:
        yield feed


@asynccontextmanager
async def serve_feed(
    bench: Bench, settings: ServiceSettings = SETTINGS, grants: Mapping[str, KeyGrant] = GRANTS
) -> AsyncIterator[FeedClient]:
    """Run the service over what is indexed, with a key for each grant."""
    store = KeyStore(bench.client, bench.connection.keys_index)
    keys = {name: (await store.create(grant)).reveal() for name, grant in grants.items()}
    async with TestClient(TestServer(create_app(settings, bench.connection))) as http:
        yield FeedClient(http, keys, bench)


@pytest.fixture
async def feed(bench: Bench) -> AsyncIterator[FeedClient]:
    """The service over listings and offices that a test may change."""
    async with open_feed(bench) as feed:
        yield feed


@pytest.fixture(scope="module")
async def unchanged(module_bench: Bench) -> AsyncIterator[FeedClient]:
    """The same for tests that only read: indexed once for all of a module."""
    async with open_feed(module_bench) as feed:
        yield feed
