"""The environment of the machine: an index prefix, the real indexer and two replicas of the real service.

Nothing makes a run differ from its repetition: the indexer's clock moves only on demand, and work of the indexer can be
stopped between two of its requests.
"""

import math
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from aiohttp.test_utils import TestClient, TestServer
from elasticsearch import AsyncElasticsearch

from cluster.connection import ConnectionSettings, connect
from indexer import IndexerSettings
from indexer.documents.companies import EVERY_COMPANY
from indexer.generations import candidate
from indexer.source.lines import Source
from mappings import COMPANY, LISTING, SOLD_LISTING, Resource
from mappings.shards import ShardRanges, cut_evenly
from mappings.stored_document import feed_key
from service.app import create_app
from service.keys.store import KeyGrant, KeyStore
from service.services import SERVICES
from service.settings import ServiceSettings
from tests.chaos.machine_control import ControlledClock, ControlledReplica, StepGate
from tests.chaos.machine_model import CHILDREN, ENDS, LONE, NUMBERS, PARENT
from tests.conftest import remove_indices
from tests.indexer.conftest import Bench
from tests.records import envelope, write
from tests.waiting import Hurry

RESOURCES = (LISTING, SOLD_LISTING)
# Long enough for a busy machine: timeouts are not tested here.
_SERVICE = ServiceSettings(deadline_seconds=300.0, shared_seconds=3_600.0, concurrency=64)
_GRANTS = {
    "all": KeyGrant("all", all_companies=True, rate=None),
    "child": KeyGrant("child", companies=(CHILDREN[0],), rate=None),
    "parent": KeyGrant("parent", parent_companies=(PARENT,), rate=None),
    "two": KeyGrant("two", companies=(CHILDREN[0], LONE), rate=None),
}


@dataclass
class MachineEnvironment:
    """The indices behind the prefix, empty between two runs except for the companies."""

    bench: Bench
    gate: StepGate
    gated: Bench  # the same whose work can be stopped
    replicas: list[ControlledReplica]
    keys: dict[str, str]
    clock: ControlledClock
    shards: int
    examples: int = 0
    rebuilds: int = 0

    def choose_ranges(self, _source: Source, resource: Resource, *_: object) -> ShardRanges:
        """Cut anywhere, mostly within the companies: a source is often empty, and has few records."""
        self.rebuilds += 1
        chance = random.Random(self.rebuilds)  # noqa: S311 - repeatable
        keys = [feed_key(company, f"{self.examples:06}{end}") for company in NUMBERS for end in ENDS]
        return cut_evenly(chance.sample(keys, len(keys) // 3), self.shards if resource in RESOURCES else 1)

    async def clear(self, resource: Resource, *, has_previous: bool) -> None:
        """Remove what a run has left. Every run starts with a generation to roll back to."""
        client, pattern = (
            self.bench.client,
            f"{self.bench.connection.alias(resource)}-v*",
        )
        await client.indices.refresh(index=pattern)
        hits = (await client.search(index=pattern, size=10_000, source=False))["hits"]["hits"]
        if hits:
            gone = [{key: hit[key] for key in ("_index", "_id", "_routing") if key in hit} for hit in hits]
            actions = [{"delete": {name.replace("_r", "r"): value for name, value in each.items()}} for each in gone]
            await client.bulk(operations=actions, refresh=True)
        if not has_previous:
            await self.rebuild_empty([resource])
        for replica in self.replicas:
            replica.forget()

    async def rebuild_empty(self, resources: list[Resource]) -> None:
        """Replace the live generation with an empty one."""
        write(self.bench.folder, {resource: [] for resource in resources})
        assert (await self.bench.build_folder(resources, force=True, covered=EVERY_COMPANY)).exit_code == 0


@asynccontextmanager
async def opened(connection: ConnectionSettings, folder: Path, shards: int = 1) -> AsyncIterator[MachineEnvironment]:
    """Create the environment, and delete it at the end."""
    settings = IndexerSettings(
        clock_seconds=math.inf,  # the clock of the run is its own
        dead_letter_folder=str(folder / "dead-letters"),
        retry_seconds=30.0,
        lock_wait_seconds=0.0,
        write_wait_seconds=0.0,
        green_seconds=0,
        merge=False,
        shards=(str(shards),),
        refresh_interval="-1",  # only what the indexer refreshes is visible, or what a rule does
    )
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(_client(connection)) for _ in range(2)]
        stack.push_async_callback(remove_indices, clients[0], connection.prefix)
        clock = stack.enter_context(patch("indexer.clock.time", ControlledClock(1_800_000_000_000)))
        stack.enter_context(patch("service.search.cached_value.time", Hurry(2 * _SERVICE.shared_seconds)))
        bench = Bench(clients[0], connection, settings, folder / "source")
        gate = StepGate(clients[1].transport)
        companies = [_company(name, number) for name, number in NUMBERS.items()]
        write(
            bench.folder,
            {COMPANY: companies, **{resource: [] for resource in RESOURCES}},
        )
        assert (await bench.build_folder([COMPANY, *RESOURCES])).exit_code == 0
        store = KeyStore(clients[0], connection.keys_index)
        keys = {name: (await store.create(grant)).reveal() for name, grant in _GRANTS.items()}
        replicas = [await stack.enter_async_context(_replica(connection)) for _ in range(2)]
        environment = MachineEnvironment(bench, gate, replace(bench, client=clients[1]), replicas, keys, clock, shards)
        stack.enter_context(patch.object(candidate, "choose_ranges", environment.choose_ranges))
        await environment.rebuild_empty(list(RESOURCES))
        yield environment


def _client(connection: ConnectionSettings) -> AsyncElasticsearch:
    return connect(connection, connections=8, timeout=120)


@asynccontextmanager
async def _replica(connection: ConnectionSettings) -> AsyncIterator[ControlledReplica]:
    app = create_app(_SERVICE, connection)
    async with TestClient(TestServer(app)) as http:
        yield ControlledReplica(http, app[SERVICES])


def _company(name: str, number: str) -> dict[str, Any]:
    parent = {"parent_company_id": PARENT} if name in CHILDREN else {}
    return envelope(COMPANY, {"platform_company_id": name, "numeric_id": number}, **parent)
