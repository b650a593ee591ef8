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
from unittest.mock import patch

from cluster.connection import ConnectionSettings, connect
from indexer import IndexerSettings
from indexer.documents.companies import EVERY_COMPANY
from indexer.generations import candidate
from indexer.source.lines import Source
from mappings import COMPANY, Resource
from mappings.shards import ShardRanges, cut_evenly
from mappings.stored_document import feed_key
from service.keys.store import KeyStore
from service.settings import ServiceSettings
from tests.conftest import remove_indices
from tests.indexer.conftest import Bench
from tests.records import write
from tests.simulation.control import ControlledClock, ControlledReplica, StepGate, controlled_replica
from tests.simulation.history import FEEDS
from tests.simulation.model import ENDS, GRANTS, NUMBERS, company_lines
from tests.waiting import Hurry

# Long enough for a busy machine: timeouts are not tested here.
_SERVICE = ServiceSettings(deadline_seconds=300.0, shared_seconds=3_600.0, concurrency=64)


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
        return cut_evenly(chance.sample(keys, len(keys) // 3), self.shards if resource in FEEDS else 1)

    async def clear(self, resource: Resource, *, has_previous: bool) -> None:
        """Remove what a run has left. Every run starts with a generation to roll back to."""
        client, pattern = self.bench.client, f"{self.bench.connection.alias(resource)}-v*"
        await client.indices.refresh(index=pattern)
        hits = (await client.search(index=pattern, size=10_000, source=False))["hits"]["hits"]
        if hits:
            gone = [{key: hit[key] for key in ("_index", "_id", "_routing") if key in hit} for hit in hits]
            actions = [{"delete": {name.replace("_r", "r"): value for name, value in found.items()}} for found in gone]
            await client.bulk(operations=actions, refresh=True)
        if not has_previous:
            await self.rebuild_empty([resource])
        for replica in self.replicas:
            replica.forget()

    async def rebuild_empty(self, resources: list[Resource]) -> None:
        write(self.bench.folder, {resource: [] for resource in resources})
        assert (await self.bench.build_folder(resources, force=True, covered=EVERY_COMPANY)).exit_code == 0


@asynccontextmanager
async def opened(connection: ConnectionSettings, folder: Path, shards: int = 1) -> AsyncIterator[MachineEnvironment]:
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
        clients = [await stack.enter_async_context(connect(connection, connections=8, timeout=120)) for _ in "ab"]
        stack.push_async_callback(remove_indices, clients[0], connection.prefix)
        clock = stack.enter_context(patch("indexer.clock.time", ControlledClock(1_800_000_000_000)))
        stack.enter_context(patch("service.search.cached_value.time", Hurry(2 * _SERVICE.shared_seconds)))
        bench = Bench(clients[0], connection, settings, folder / "source")
        gate = StepGate(clients[1].transport)
        write(bench.folder, {COMPANY: company_lines(), **{resource: [] for resource in FEEDS}})
        assert (await bench.build_folder([COMPANY, *FEEDS])).exit_code == 0
        store = KeyStore(clients[0], connection.keys_index)
        keys = {name: (await store.create(grant)).reveal() for name, grant in GRANTS.items()}
        replicas = [await stack.enter_async_context(controlled_replica(_SERVICE, connection)) for _ in "ab"]
        environment = MachineEnvironment(bench, gate, replace(bench, client=clients[1]), replicas, keys, clock, shards)
        stack.enter_context(patch.object(candidate, "choose_ranges", environment.choose_ranges))
        await environment.rebuild_empty(list(FEEDS))
        yield environment
