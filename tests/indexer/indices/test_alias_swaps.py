"""Alias swaps under constant reading over HTTP: no request fails, no page mixes two generations."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson
from aiohttp.test_utils import TestClient, TestServer

from indexer.generations.lifecycle import GenerationLifecycle
from mappings import AGENT, COMPANY, LISTING
from service.app import create_app
from service.keys.store import KeyGrant, KeyStore
from service.settings import ServiceSettings
from tests.indexer.conftest import Bench
from tests.records import COMPANY_KEY, envelope
from tests.waiting import until

_RECORDS = 40
# No request is given up on a busy machine.
_SETTINGS = ServiceSettings(deadline_seconds=300.0)
_CLIENTS = 2  # of each path
_FEED = f"/v1/listings?platform_company_id={COMPANY_KEY}&market_status=all&updated_since=1&page_size=15"
_PATHS = {
    "listings": _FEED,
    "later listings": f"{_FEED}&last_platform_listing_id=listing-10",
    "show": "/v1/listings/listing-07",
    "agents": "/v1/agents?updated_since=1&page_size=15&page_number=2",
}


@dataclass
class Readers:
    """The responses to readers: pages, failures, and pages of more than one generation."""

    http: TestClient[Any, Any]
    key: str
    pages: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_PATHS, 0))
    seen: dict[str, set[str]] = field(default_factory=lambda: {name: set() for name in _PATHS})
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    failed: list[tuple[str, int, bytes]] = field(default_factory=list)
    mixed: list[tuple[str, set[str]]] = field(default_factory=list)

    async def read(self, name: str) -> None:
        """Request one path repeatedly until cancelled."""
        while True:
            async with self.http.get(_PATHS[name], headers={"x-api-key": self.key}) as response:
                body = await response.read()
            self.pages[name] += 1
            self.answered.set()
            if response.status != 200:
                self.failed.append((name, response.status, body[:300]))
                continue
            generations = {_generation(record) for record in _records(orjson.loads(body))}
            self.seen[name] |= generations
            if len(generations) != 1:
                self.mixed.append((name, generations))

    async def read_all(self) -> None:
        """Wait until each path has had a response to a request from now on."""
        enough = {name: count + _CLIENTS + 1 for name, count in self.pages.items()}
        await until(lambda: all(self.pages[name] >= count for name, count in enough.items()))


def _records(answer: Any) -> list[dict[str, Any]]:
    if isinstance(answer, list):
        return answer
    found: list[dict[str, Any]] = answer.get("Listings", [answer])
    return found


def _generation(record: dict[str, Any]) -> str:
    return str(record["City"] if "City" in record else record["first_name"])


async def build(bench: Bench, generation: str) -> None:
    """Build listings and agents that carry the number of their generation."""
    listings = [
        envelope(LISTING, {"PlatformListingId": f"listing-{number:02}", "City": generation})
        for number in range(_RECORDS)
    ]
    agents = [
        envelope(AGENT, {"agent_uuid": str(UUID(int=number)), "first_name": generation}) for number in range(_RECORDS)
    ]
    summary = await bench.build({COMPANY: [envelope(COMPANY)], LISTING: listings, AGENT: agents})
    assert summary.exit_code == 0


@asynccontextmanager
async def reading(bench: Bench) -> AsyncIterator[Readers]:
    """Start the service and let clients read from it while the block runs, once each has had a response."""
    key = await KeyStore(bench.client, bench.connection.keys_index).create(
        KeyGrant("all", all_companies=True, rate=None)
    )
    async with TestClient(TestServer(create_app(_SETTINGS, bench.connection))) as http:
        readers = Readers(http, key.reveal())
        tasks = [asyncio.create_task(readers.read(name)) for name in _PATHS for _ in range(_CLIENTS)]
        try:
            # A service that has just begun keeps its first watermark for a second.
            await until(lambda: all(readers.pages.values()))
            yield readers
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends


async def test_swaps_fail_no_request_and_mix_no_page(bench: Bench, amount: Callable[[int, int], int]) -> None:
    swaps = amount(60, 1000)
    for generation in ("first", "second"):
        await build(bench, generation)
    alternating = [(GenerationLifecycle(bench.engine(), resource), resource.alias) for resource in (LISTING, AGENT)]
    prefix = bench.connection.prefix
    async with reading(bench) as readers:
        for number in range(swaps):
            lifecycle, alias = alternating[number % 2]
            names = [f"{prefix}{alias}-v0001", f"{prefix}{alias}-v0002"]
            now = number // 2 % 2
            readers.answered.clear()
            await lifecycle.swap(names[now], names[1 - now])
            # Mostly the next swap follows at once; at times all paths are read between two.
            await (readers.read_all() if number % 20 < 4 else readers.answered.wait())
    assert (readers.failed, readers.mixed) == ([], [])
    assert readers.seen == {name: {"first", "second"} for name in _PATHS}
    assert sum(readers.pages.values()) >= swaps
