"""The cluster that all runs share: one node with a folder for backups, two foreign sets of indices, two clocks."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from aiohttp.test_utils import TestClient, TestServer

from cluster.connection import ConnectionSettings, connect
from cluster.control_index import ensure_index
from indexer import IndexerSettings
from mappings import COMPANY, LISTING, SOLD_LISTING
from service.app import create_app
from service.keys.api_key import KEYS_INDEX_BODY
from service.keys.store import KeyGrant, KeyStore
from service.services import SERVICES
from service.settings import ServiceSettings
from tests.chaos.machine_control import ControlledClock, ControlledReplica, StepGate
from tests.chaos.machine_model import CHILDREN, FORMS, LONE, NUMBERS, PARENT
from tests.disasters.backups import back_up
from tests.disasters.source_records import SourceRecords
from tests.indexer.conftest import Bench
from tests.records import envelope, write
from tests.waiting import Hurry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from elasticsearch import AsyncElasticsearch

FOLLOWED = (LISTING, SOLD_LISTING)
ALL = (COMPANY, *FOLLOWED)
HOME = "home"
# Names of foreign indices, and their numbers of records: their marks are below or above those of a run.
FOREIGN = {"low": 4, "high": 100}
GRANTS = {
    "all": KeyGrant("all", all_companies=True, rate=None),
    "child": KeyGrant("child", companies=(CHILDREN[0],), rate=None),
    "two": KeyGrant("two", companies=(CHILDREN[0], LONE), rate=None),
}
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


@dataclass
class ServiceClock(Hurry):
    """The clock of the service: the time of day can be set, everything cached is old."""

    offset: float = 0.0  # seconds

    def time(self) -> float:
        """Return the time of day."""
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
        """Return the settings of a set of indices."""
        return ConnectionSettings(url=(self.url,), prefix=f"{name}-")

    def bench(self, name: str, client: AsyncElasticsearch | None = None) -> Bench:
        """Return an indexer of a set of indices; by default one that is never paused."""
        return Bench(client or self.admin, self.connection(name), _SETTINGS, self.folder / "sources" / name)

    async def build(self, name: str, records: int = 0) -> None:
        """Build indices with this number of records, and the companies and keys that all sets of indices have."""
        bench = self.bench(name)
        companies = [_company(company, number) for company, number in NUMBERS.items()]
        given = [(at, FORMS[at % len(FORMS)]) for at in range(records)]
        lines = {resource: SourceRecords(resource).changed(given) for resource in FOLLOWED}
        write(bench.folder, {COMPANY: companies, **lines})
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

    @asynccontextmanager
    async def service(self, name: str) -> AsyncIterator[ControlledReplica]:
        """Run a process of the service on a set of indices."""
        app = create_app(_SERVICE, self.connection(name))
        async with TestClient(TestServer(app)) as http:
            yield ControlledReplica(http, app[SERVICES])


@asynccontextmanager
async def opened_world(url: str, folder: Path, backups: Path) -> AsyncIterator[DisasterWorld]:
    """Open the clients and replace the clocks of indexer and service."""
    settings = ConnectionSettings(url=(url,))
    async with AsyncExitStack() as stack:
        admin, gated = [
            await stack.enter_async_context(connect(settings, connections=8, timeout=120)) for _ in range(2)
        ]
        now = time.time_ns() // 1_000_000
        clock = stack.enter_context(patch("indexer.clock.time", ControlledClock(now)))
        service_clock = ServiceClock(2 * _SERVICE.shared_seconds)
        for module in ("service.search.cached_value", "service.search.query", "service.resources.responses"):
            stack.enter_context(patch(f"{module}.time", service_clock))
        stack.enter_context(patch("indexer.lock.time", Hurry(_LOCK_STEP_SECONDS)))
        stack.enter_context(patch("brokerage_feed.http_client.sleep", lambda _: asyncio.sleep(0)))
        world = DisasterWorld(url, folder, backups, admin, gated, StepGate(gated.transport), clock, service_clock)
        await world.build(HOME)
        await back_up(world, HOME, "base", f"{HOME}-*")
        for name, records in FOREIGN.items():
            await world.build(name, records)
            world.foreign[name] = await stack.enter_async_context(world.service(name))
        yield world


def _company(name: str, number: str) -> dict[str, Any]:
    parent = {"parent_company_id": PARENT} if name in CHILDREN else {}
    return envelope(COMPANY, {"platform_company_id": name, "numeric_id": number}, **parent)
