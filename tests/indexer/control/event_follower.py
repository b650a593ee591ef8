"""A consumer of events on a real node, which keeps a copy of what it reads."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from mappings import RESOURCES, Resource
from service.app import build_services, reading_client
from service.reso.entity_events import EventLedger, EventLedgerReader
from service.settings import ServiceSettings
from tests.indexer.conftest import Bench

_EVERY = 10_000
_PAGE = 7
# Polls without a pause would take the processors from what they follow.
_PAUSE_SECONDS = 0.03


class FollowerState(NamedTuple):
    """One state of a document."""

    sequence: int
    version: int
    deleted: bool


class EventFollower:
    """Polls for events after the last one, in pages, and keeps the state of every document in them."""

    def __init__(self, bench: Bench, reader: EventLedgerReader) -> None:
        self._bench = bench
        self._reader = reader
        self.last = 0
        self.copy: dict[tuple[str, str], FollowerState] = {}
        self.published: dict[int, tuple[str, int]] = {}
        self.polls = 0

    async def ledger(self) -> EventLedger:
        return await self._reader.read()

    async def poll(self, size: int = _EVERY) -> list[int]:
        """Read one page and return its numbers; a number always refers to the same state of one document."""
        ledger = await self.ledger()
        found = sorted([event for resource in RESOURCES for event in await self._behind(ledger, resource)])[:size]
        for number, alias, identifier, state in found:
            assert number > self.last
            assert self.published.setdefault(number, (alias, state.sequence)) == (alias, state.sequence)
            self.copy[alias, identifier] = state
            self.last = number
        self.polls += 1
        return [number for number, *_ in found]

    async def _behind(self, ledger: EventLedger, resource: Resource) -> list[tuple[int, str, str, FollowerState]]:
        low, high = ledger.sequence_at(resource.alias, self.last), ledger.published_sequence(resource.alias)
        query = {"range": {"sequence": {"gt": low, "lte": high}}}
        published = [
            (ledger.event_number(resource.alias, state.sequence), name, state)
            for name, state in await self._search(resource, query)
        ]
        return [(number or 0, resource.alias, name, state) for number, name, state in published]

    async def _search(self, resource: Resource, query: dict[str, Any]) -> list[tuple[str, FollowerState]]:
        index = self._bench.connection.alias(resource)
        answer = await self._bench.client.options(ignore_status=404).search(
            index=index, size=_EVERY, query=query, version=True, source_includes=["sequence", "deleted"]
        )
        hits = answer["hits"]["hits"] if "hits" in answer else []
        return [
            (hit["_id"], FollowerState(hit["_source"]["sequence"], hit["_version"], hit["_source"]["deleted"]))
            for hit in hits
        ]

    async def live(self) -> dict[tuple[str, str], FollowerState]:
        found: dict[tuple[str, str], FollowerState] = {}
        for resource in RESOURCES:
            found |= {(resource.alias, name): state for name, state in await self._search(resource, {"match_all": {}})}
        return found

    async def until(self, work: asyncio.Future[Any]) -> None:
        """Poll small pages until some work is done, then to the end; raise what it raises."""
        while not work.done():
            await self.poll(_PAGE)
            await asyncio.sleep(_PAUSE_SECONDS)
        await work
        while await self.poll(_PAGE):
            pass


@asynccontextmanager
async def following(bench: Bench) -> AsyncIterator[EventFollower]:
    """Open the service's readers."""
    async with reading_client(bench.connection, 2, 30) as client:
        services = build_services(client, ServiceSettings(deadline_seconds=300.0), bench.connection)
        yield EventFollower(bench, EventLedgerReader(services.engine, bench.connection.control_index))
