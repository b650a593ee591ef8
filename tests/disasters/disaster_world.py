"""The cluster that all runs share: one node with a folder for backups, two foreign sets of indices, two clocks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from elasticsearch import ApiError, AsyncElasticsearch, NotFoundError

from cluster.connection import ConnectionSettings, connect
from cluster.control_index import ensure_index, read_mark
from indexer import IndexerSettings
from mappings import COMPANY, Resource
from mappings.stored_document import is_move
from service.keys.api_key import KEYS_INDEX_BODY
from service.keys.store import KeyStore
from service.settings import ServiceSettings
from tests.indexer.conftest import Bench
from tests.records import write
from tests.simulation.control import ControlledClock, ControlledReplica, StepGate, controlled_replica
from tests.simulation.history import FEEDS
from tests.simulation.model import FORMS, GRANTS, LONE, Change, SourceRecords, States, company_lines, state_of
from tests.waiting import Hurry

RECORDS = 9
ALL = (COMPANY, *FEEDS)
HOME = "home"
# Names of foreign indices, and their numbers of records: their marks are below or above those of a run.
FOREIGN = {"low": 4, "high": 100}
# Timeouts are not tested here; a mark whose refresh fails is stale at once; the service looks when the game lets it.
_SERVICE = ServiceSettings(
    deadline_seconds=300.0, shared_seconds=3_600.0, fresh_seconds=3_600.0, stale_seconds=3_600.0, concurrency=64
)
_SETTINGS = IndexerSettings(
    retry_seconds=0.2,  # what a disaster breaks stays broken
    lock_wait_seconds=90.0,  # of the clock of locks, see below: the second look takes over
    write_wait_seconds=90.0,
    green_seconds=0,
    merge=False,
    refresh_interval="-1",
)
# Each look at the clock of a lock finds its holder silent: a lock that a backup held is taken over at once.
_LOCK_STEP_SECONDS = 60.0
_AT_MOST = 1_000  # records


class DisasterSource:
    """The records of one resource as their source knows them, by number. Disasters do not change it."""

    def __init__(self, resource: Resource) -> None:
        self.live: States = {}
        self._records = SourceRecords(resource, self.live.get)

    def changed(self, changes: Sequence[tuple[int, Change]]) -> list[dict[str, Any]]:
        states = self._records.changed({f"r{at}": change for at, change in changes})
        self.live.update(states)
        return self._records.lines(states)

    def full(self, lacking: frozenset[int] = frozenset(), company: str = "") -> list[dict[str, Any]]:
        """Return the lines of a full source, without some records, of all companies by default."""
        owned = {name for name in self.live if company in {"", self._records.owner.get(name, LONE)}}
        kept = {name: state for name, state in self.live.items() if name in owned and int(name[1:]) not in lacking}
        return self._records.lines(kept)


@dataclass
class Served:
    """The names of the live records by identifier; `is_settled` if none of them waits to be published."""

    names: dict[str, str]
    is_settled: bool


@dataclass
class ServiceClock(Hurry):
    """The clock of the service: the time of day can be set, everything cached is old."""

    offset: float = 0.0  # seconds

    def time(self) -> float:
        return time.time() + self.offset


@dataclass
class DisasterWorld:
    """What the runs share. The indexer writes through `gated`, an operator acts through `admin`."""

    url: str
    folder: Path  # of sources and copies
    backups: Path
    admin: AsyncElasticsearch
    gated: AsyncElasticsearch
    gate: StepGate
    clock: ControlledClock
    service_clock: ServiceClock
    foreign: dict[str, ControlledReplica] = field(default_factory=dict)  # the service on other indices, by their name
    keys: dict[str, str] = field(default_factory=dict)
    key_documents: list[tuple[str, Any]] = field(default_factory=list)

    def connection(self, name: str) -> ConnectionSettings:
        return ConnectionSettings(url=(self.url,), prefix=f"{name}-")

    def bench(self, name: str, client: AsyncElasticsearch | None = None) -> Bench:
        return Bench(client or self.admin, self.connection(name), _SETTINGS, self.folder / "sources" / name)

    async def build(self, name: str, records: int = 0) -> None:
        """Build indices with this number of records, and the companies and keys that all sets of indices have."""
        bench = self.bench(name)
        given = [(at, FORMS[at % len(FORMS)]) for at in range(records)]
        lines = {resource: DisasterSource(resource).changed(given) for resource in FEEDS}
        write(bench.folder, {COMPANY: company_lines(), **lines})
        assert (await bench.build_folder(ALL)).exit_code == 0
        await self.store_keys(bench.connection)

    async def store_keys(self, connection: ConnectionSettings) -> None:
        """Store the same keys in every set of indices."""
        if not self.keys:
            store = KeyStore(self.admin, connection.keys_index)
            self.keys = {name: (await store.create(grant)).reveal() for name, grant in GRANTS.items()}
            hits = (await self.admin.search(index=connection.keys_index))["hits"]["hits"]
            self.key_documents = [(hit["_id"], hit["_source"]) for hit in hits]
            return
        await ensure_index(self.admin, connection.keys_index, KEYS_INDEX_BODY)
        for key_id, document in self.key_documents:
            await self.admin.index(index=connection.keys_index, id=key_id, document=document)
        await self.admin.indices.refresh(index=connection.keys_index)

    def service(self, name: str) -> AbstractAsyncContextManager[ControlledReplica]:
        return controlled_replica(_SERVICE, self.connection(name))

    # Elasticsearch's snapshots of the indices of a run.

    async def back_up(self, repository: str, name: str, pattern: str) -> None:
        """Take a snapshot of the indices of a pattern; the repository is created with its first one."""
        location = {"type": "fs", "settings": {"location": str(self.backups / repository)}}
        await self.admin.snapshot.create_repository(name=repository, repository=location, verify=False)
        taken = await self.admin.snapshot.create(
            repository=repository, snapshot=name, indices=pattern, include_global_state=False, wait_for_completion=True
        )
        assert taken["snapshot"]["state"] == "SUCCESS", taken

    async def restore(self, repository: str, name: str, pattern: str) -> None:
        """Replace the indices of a pattern with those of a snapshot."""
        await self.delete(pattern)
        restored = await self.admin.snapshot.restore(
            repository=repository, snapshot=name, indices=pattern, include_global_state=False, wait_for_completion=True
        )
        assert restored["snapshot"]["shards"]["failed"] == 0, restored

    async def delete(self, pattern: str) -> None:
        """Delete the indices of a pattern, closed ones included."""
        if names := list(await self.admin.indices.get(index=pattern, expand_wildcards="all", ignore_unavailable=True)):
            await self.admin.indices.delete(index=names)

    async def served(self, place: str, resource: Resource) -> Served | None:
        """Return what is served of a resource from a set of indices, read without the service; None if nothing."""
        connection = self.connection(place)
        try:
            found = await self.admin.search(index=connection.alias(resource), size=_AT_MOST)
            mark = await read_mark(self.admin, connection.control_index, connection.alias(resource))
        except NotFoundError:
            return None
        except ApiError:  # closed: it was so when it was backed up
            return Served({}, is_settled=False)
        documents = {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}
        states = {name: state_of(document) for name, document in documents.items() if not is_move(name)}
        highest = max((document["sequence"] for document in documents.values()), default=0)
        names = {name: state.name for name, state in states.items() if state.name is not None}
        return Served(names, mark is None or highest <= mark.sequence)


@asynccontextmanager
async def opened_world(url: str, folder: Path, backups: Path) -> AsyncIterator[DisasterWorld]:
    """Open the clients and replace the clocks of indexer and service."""
    settings = ConnectionSettings(url=(url,))
    async with AsyncExitStack() as stack:
        admin, gated = [await stack.enter_async_context(connect(settings, connections=8, timeout=120)) for _ in "ab"]
        now = time.time_ns() // 1_000_000
        clock = stack.enter_context(patch("indexer.clock.time", ControlledClock(now)))
        service_clock = ServiceClock(2 * _SERVICE.shared_seconds)
        for module in ("service.search.cached_value", "service.search.query", "service.resources.responses"):
            stack.enter_context(patch(f"{module}.time", service_clock))
        stack.enter_context(patch("indexer.lock.time", Hurry(_LOCK_STEP_SECONDS)))
        stack.enter_context(patch("brokerage_feed.http_client.sleep", lambda _: asyncio.sleep(0)))
        world = DisasterWorld(url, folder, backups, admin, gated, StepGate(gated.transport), clock, service_clock)
        await world.build(HOME)
        await world.back_up(HOME, "base", f"{HOME}-*")
        for name, records in FOREIGN.items():
            await world.build(name, records)
            world.foreign[name] = await stack.enter_async_context(world.service(name))
        yield world
