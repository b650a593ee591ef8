"""Consumers of the listings feed, and what they ask: the service over HTTP, or a filter by the source's own clock."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp.test_utils import TestClient, TestServer

from mappings import LISTING
from service.app import create_app
from service.keys.store import KeyGrant, KeyStore
from service.settings import ServiceSettings
from tests.indexer.conftest import Bench
from tests.records import COMPANY_KEY

Copy = dict[str, dict[str, Any]]  # records by identifier
Answer = tuple[Copy, int]  # all pages of a walk, and the next watermark

_PAGE_SIZE = 50
_EVER = 1  # second
# Marks are read for every request, so that the watermark is as high as the service can answer; no request is
# given up on a busy machine.
_SETTINGS = ServiceSettings(fresh_seconds=0.0, stale_seconds=0.0, deadline_seconds=300.0)


@dataclass
class PollingConsumer:
    """Polls with the watermark of the poll before; of a record that comes again the latest answer counts."""

    ask: Callable[[int], Awaitable[Answer]]
    watermark: int = _EVER
    copy: Copy = field(default_factory=dict)
    polls: int = 0

    async def poll(self) -> set[str]:
        """Walk what has changed and return its identifiers."""
        found, self.watermark = await self.ask(self.watermark)
        self.copy |= found
        self.polls += 1
        return set(found)

    def missed(self, served: Copy) -> set[str]:
        """Return the identifiers of records that the copy lacks or has in another state, or has for nothing."""
        return {name for name in served.keys() | self.copy.keys() if served.get(name) != self.copy.get(name)}


@dataclass(frozen=True)
class ServedFeed:
    """The service over HTTP, with a key for everything."""

    http: TestClient[Any, Any]
    key: str

    async def since(self, watermark: int) -> Answer:
        """Walk the company's listings updated since a second; the first page gives the next watermark."""
        found: Copy = {}
        after, following = "", ""
        while True:
            page, headers = await self._page(watermark, after)
            following = following or headers["X-Next-Updated-Since"]
            found |= {record["PlatformListingId"]: record for record in page["Listings"]}
            if page["FinalPage"]:
                return found, int(following)
            after = page["Listings"][-1]["PlatformListingId"]

    async def agents_since(self, watermark: int) -> Answer:
        """Return the company's agents updated since a second, all on one page."""
        page, headers = await self._get("agents", watermark)
        return {record["agent_uuid"]: record for record in page}, int(headers["X-Next-Updated-Since"])

    async def sold_since(self, watermark: int) -> Answer:
        """Return the company's sold listings updated since a second, all on one page."""
        page, headers = await self._get("sold_listings", watermark)
        assert page["FinalPage"]
        records = {record["PlatformListingId"]: record for record in page["Listings"]}
        return records, int(headers["X-Next-Updated-Since"])

    async def served(self) -> Copy:
        return (await self.since(_EVER))[0]

    async def _page(self, watermark: int, after: str) -> tuple[Any, Any]:
        place = {"last_platform_listing_id": after} if after else {}
        return await self._get("listings", watermark, market_status="all", page_size=str(_PAGE_SIZE), **place)

    async def _get(self, collection: str, watermark: int, **parameters: str) -> tuple[Any, Any]:
        query = {"platform_company_id": COMPANY_KEY, "updated_since": str(watermark), **parameters}
        async with self.http.get(f"/v1/{collection}", params=query, headers={"x-api-key": self.key}) as answer:
            body = await answer.read()
            assert answer.status == 200, body
            return orjson.loads(body), answer.headers


@asynccontextmanager
async def open_feed(bench: Bench) -> AsyncIterator[ServedFeed]:
    store = KeyStore(bench.client, bench.connection.keys_index)
    key = (await store.create(KeyGrant("all", all_companies=True, rate=None))).reveal()
    async with TestClient(TestServer(create_app(_SETTINGS, bench.connection))) as http:
        yield ServedFeed(http, key)


@dataclass(frozen=True)
class SourceClock:
    """The feed as it would be with the source's `updated_at` for a clock: the largest one seen is the watermark."""

    bench: Bench

    async def since(self, watermark: int) -> Answer:
        """Return the records whose source time is at or after the watermark, in microseconds since 1970."""
        query = {"bool": {"filter": [{"range": {"version": {"gte": watermark * 1024}}}, {"term": {"deleted": False}}]}}
        alias = self.bench.connection.alias(LISTING)
        answer = await self.bench.client.search(index=alias, query=query, size=10_000)
        documents = [hit["_source"] for hit in answer["hits"]["hits"]]
        newest = max((document["version"] >> 10 for document in documents), default=watermark)
        return {document["id"]: document["record"] for document in documents}, newest
