"""Looking after what is there: status, rollback and pruning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cluster.control import Mark, publish_mark, read_mark
from indexer.clocks import baseline
from indexer.engine import Engine
from indexer.errors import RefusedError, engine_errors
from indexer.lifecycle import Generations, Lifecycle
from indexer.lock import locked
from mappings import RESOURCES
from mappings.index import fingerprint

if TYPE_CHECKING:
    from elasticsearch import AsyncElasticsearch

    from cluster.connection import ConnectionSettings
    from indexer.settings import IndexerSettings
    from mappings import Resource


@dataclass(frozen=True)
class ResourceStatus:
    """What is served of a resource. `mark` is milliseconds since 1970, `size` bytes on disk with replicas."""

    resource: str
    alias: str
    live: str | None
    others: list[str]
    documents: int
    tombstones: int
    size: int
    is_current: bool  # the live index has the shape that this program declares
    mark: int | None


async def status(
    client: AsyncElasticsearch, connection: ConnectionSettings, settings: IndexerSettings
) -> list[ResourceStatus]:
    """Return the state of every resource; raise EngineError or RefusedError."""
    with engine_errors():
        return [await _status(Engine(client, connection, settings), resource) for resource in RESOURCES]


async def _status(engine: Engine, resource: Resource) -> ResourceStatus:
    lifecycle = Lifecycle(engine, resource)
    present = await lifecycle.generations()
    live = present.live
    mark = await read_mark(engine.client, engine.connection.control_index, lifecycle.alias)
    return ResourceStatus(
        resource=resource.alias,
        alias=lifecycle.alias,
        live=live,
        others=[index for index in present.replaced if index != live],
        documents=await lifecycle.count(live, deleted=False) if live else 0,
        tombstones=await lifecycle.count(live, deleted=True) if live else 0,
        size=await lifecycle.size(live) if live else 0,
        is_current=live is not None and present.fingerprints.get(live) == fingerprint(resource),
        mark=mark.clock if mark else None,
    )


async def previous(
    client: AsyncElasticsearch, connection: ConnectionSettings, settings: IndexerSettings, resource: Resource
) -> tuple[str, str]:
    """Return the live generation and the one that a rollback would bring back; raise RefusedError without one."""
    with engine_errors():
        lifecycle = Lifecycle(Engine(client, connection, settings), resource)
        return _step_back(await lifecycle.generations(), resource)


async def rollback(
    client: AsyncElasticsearch, connection: ConnectionSettings, settings: IndexerSettings, resource: Resource
) -> str:
    """Bring back the generation that the live one replaced, and return its name.

    The mark's epoch rises, since records then are as they were before. Raises RefusedError, EngineError or LockedError.
    """
    control = connection.control_index
    with engine_errors():
        async with locked(client, control):
            lifecycle = Lifecycle(Engine(client, connection, settings), resource)
            live, target = _step_back(await lifecycle.generations(), resource)
            mark = await baseline(client, live, await read_mark(client, control, lifecycle.alias))
            await lifecycle.swap(target, live)
            if mark is not None:
                stepped = Mark(mark.clock, mark.sequence, mark.epoch + 1, target)
                await publish_mark(client, control, lifecycle.alias, stepped)
            return target


def _step_back(present: Generations, resource: Resource) -> tuple[str, str]:
    if len(present.history) < 2:
        raise RefusedError(f"{resource.alias} has no earlier generation to roll back to.")
    live, target = present.history[:2]
    return live, target


async def superfluous(
    client: AsyncElasticsearch, connection: ConnectionSettings, settings: IndexerSettings
) -> list[str]:
    """Return the indices that pruning would delete, of every resource."""
    engine = Engine(client, connection, settings)
    with engine_errors():
        every = [Lifecycle(engine, resource) for resource in RESOURCES]
        return [index for one in every for index in one.superfluous(await one.generations())]


async def prune(client: AsyncElasticsearch, connection: ConnectionSettings, settings: IndexerSettings) -> list[str]:
    """Delete what is superfluous of every resource and return the names; raise EngineError or LockedError."""
    engine = Engine(client, connection, settings)
    with engine_errors():
        async with locked(client, connection.control_index):
            every = [Lifecycle(engine, resource) for resource in RESOURCES]
            return [index for one in every for index in await one.prune(await one.generations())]
