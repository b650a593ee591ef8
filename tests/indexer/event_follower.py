"""A consumer of events on a real node: what it reads of the ledger and of what is live, and the copy that it keeps."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from cluster.connection import connect
from cluster.node import ReadingNode
from mappings import RESOURCES
from service.app import compose
from service.reso.sequence import Reader
from service.settings import ServiceSettings

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator

    from mappings import Resource
    from service.reso.sequence import Ledger
    from tests.indexer.conftest import Bench

_EVERY = 10_000
_PAGE = 7


class State(NamedTuple):
    """One state of a document."""

    sequence: int
    version: int
    deleted: bool


class Follower:
    """Asks for what lies behind the last event, a page at a time, and keeps the state of every document it hears of."""

    def __init__(self, bench: Bench, reader: Reader) -> None:
        """Have nothing."""
        self._bench = bench
        self._reader = reader
        self.last = 0
        self.copy: dict[tuple[str, str], State] = {}
        self.told: dict[int, tuple[str, int]] = {}
        self.polls = 0

    async def ledger(self) -> Ledger:
        """Return the ledger as it is now."""
        return await self._reader.read()

    async def poll(self, size: int = _EVERY) -> list[int]:
        """Read one page and return its numbers; a number is of one document's state for ever."""
        ledger = await self.ledger()
        found = sorted([each for resource in RESOURCES for each in await self._behind(ledger, resource)])[:size]
        for number, alias, identifier, state in found:
            assert number > self.last
            assert self.told.setdefault(number, (alias, state.sequence)) == (alias, state.sequence)
            self.copy[alias, identifier] = state
            self.last = number
        self.polls += 1
        return [number for number, *_ in found]

    async def _behind(self, ledger: Ledger, resource: Resource) -> list[tuple[int, str, str, State]]:
        low, high = ledger.place(resource.alias, self.last), ledger.upto(resource.alias)
        query = {"range": {"sequence": {"gt": low, "lte": high}}}
        told = [
            (ledger.number(resource.alias, state.sequence), name, state)
            for name, state in await self._search(resource, query)
        ]
        return [(number or 0, resource.alias, name, state) for number, name, state in told]

    async def _search(self, resource: Resource, query: dict[str, Any]) -> list[tuple[str, State]]:
        index = self._bench.connection.alias(resource)
        answer = await self._bench.client.options(ignore_status=404).search(
            index=index, size=_EVERY, query=query, version=True, source_includes=["sequence", "deleted"]
        )
        hits = answer["hits"]["hits"] if "hits" in answer else []
        return [
            (hit["_id"], State(hit["_source"]["sequence"], hit["_version"], hit["_source"]["deleted"])) for hit in hits
        ]

    async def live(self) -> dict[tuple[str, str], State]:
        """Return what is live of all resources."""
        found: dict[tuple[str, str], State] = {}
        for resource in RESOURCES:
            found |= {(resource.alias, name): state for name, state in await self._search(resource, {"match_all": {}})}
        return found

    async def until(self, work: asyncio.Future[Any]) -> None:
        """Poll small pages until some work is over, then to the end; raise what it raises."""
        while not work.done():
            await self.poll(_PAGE)
        await work
        while await self.poll(_PAGE):
            pass


@asynccontextmanager
async def following(bench: Bench) -> AsyncIterator[Follower]:
    """Open what the service reads with."""
    async with connect(
        bench.connection, connections=2, timeout=30, meta_header=False, node_class=ReadingNode
    ) as client:
        services = compose(client, ServiceSettings(deadline_seconds=300.0), bench.connection)
        yield Follower(bench, Reader(services.engine, bench.connection.control_index))
