"""A swap between the searches of one page: the page has the records of one generation, without gap or repetition."""

from collections.abc import AsyncIterator, Sequence

import pytest
from aiohttp.test_utils import TestClient, TestServer

from indexer.generations.lifecycle import GenerationLifecycle
from mappings import COMPANY, LISTING
from service.app import create_app
from service.keys.store import KeyStore
from service.search.engine import SearchEngine
from service.services import SERVICES
from tests.feed.conftest import GRANTS, SETTINGS
from tests.feed.feed_client import FeedClient, company, listing
from tests.indexer.conftest import Bench
from tests.internals import known_shards

COMPANIES = [company(key) for key in "abc"]
NAMES = [f"L{at:02}" for at in range(20)]
SECOND = 1_000  # prices of the second generation are as much higher
PAGE = {"platform_company_id": "b", "updated_since": 1, "page_size": 15}


@pytest.fixture
def shards() -> int:
    """Three: a page of 15 takes at least two searches."""
    return 3


@pytest.fixture
async def served(bench: Bench) -> AsyncIterator[FeedClient]:
    """Twenty listings of one company, and the service over them, which knows the shards."""
    lines = {COMPANY: COMPANIES, LISTING: [listing(name, "b", price=at) for at, name in enumerate(NAMES)]}
    assert (await bench.build(lines)).exit_code == 0
    key = await KeyStore(bench.client, bench.connection.keys_index).create(GRANTS["b"])
    async with TestClient(TestServer(create_app(SETTINGS, bench.connection))) as http:
        feed = FeedClient(http, {"b": key.reveal()}, bench)
        assert await page(feed) == [*range(15)]
        yield feed


async def page(feed: FeedClient) -> Sequence[int]:
    """Return the prices on the first page."""
    listings = (await feed.json("listings", "b", **PAGE))["Listings"]
    assert [each["PlatformListingId"] for each in listings] == NAMES[:15]
    return [each["ListPrice"] for each in listings]


def engine(feed: FeedClient) -> SearchEngine:
    """Return the engine of the service."""
    found: SearchEngine = feed.http.server.app[SERVICES].engine  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("wanted", [1, 3, 4])
async def test_a_swap_within_a_page_mixes_no_generations(
    served: FeedClient, monkeypatch: pytest.MonkeyPatch, wanted: int
) -> None:
    """Although a health check, which read the indices before the swap, sets the earlier shards after every search."""
    searches, send, bench = list[str](), engine(served).request, served.bench
    alias, known = bench.connection.alias(LISTING), known_shards(engine(served).shards)
    outdated = known[alias]
    lifecycle = GenerationLifecycle(bench.engine(), LISTING)
    lines = [listing(name, "b", price=SECOND + at) for at, name in enumerate(NAMES)]
    assert (await bench.build({COMPANY: COMPANIES, LISTING: lines}, shards=(str(wanted),))).exit_code == 0
    first, second = outdated.index, f"{bench.connection.prefix}{await bench.live(LISTING)}"
    await lifecycle.swap(first, second)

    async def interrupted(method: str, target: str, body: bytes | None) -> tuple[int, bytes]:
        if not target.startswith(f"/{alias}") or "/_search" not in target:
            return await send(method, target, body)
        searches.append(target)
        if len(searches) == 2:
            await lifecycle.swap(second, first)
        response = await send(method, target, body)
        known[alias] = outdated
        return response

    known[alias] = outdated
    monkeypatch.setattr(engine(served), "request", interrupted)
    assert await page(served) == [*range(SECOND, SECOND + 15)]
    assert len(searches) > 2
