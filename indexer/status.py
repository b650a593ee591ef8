"""What there is of each resource: generations, counts, sizes, shapes, and what was last done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cluster.control import read_mark
from indexer.checkpoint import Checkpoint
from indexer.errors import engine_errors
from indexer.ledger import last
from indexer.lifecycle import DELETED, LIVE, Lifecycle
from indexer.replications import replications
from mappings import RESOURCES

if TYPE_CHECKING:
    from indexer.checkpoint import Progress
    from indexer.engine import Engine
    from indexer.ledger import Entry
    from indexer.replications import Replication
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
    last: Entry | None
    build: Progress | None  # one that is under way, was interrupted, or was refused
    sources: list[Replication]  # what is replicated into it


async def status(engine: Engine) -> list[ResourceStatus]:
    """Return the state of every resource; raise EngineError or RefusedError."""
    with engine_errors():
        followed = await replications(engine)
        return [await _status(engine, resource, followed) for resource in RESOURCES]


async def _status(engine: Engine, resource: Resource, followed: list[Replication]) -> ResourceStatus:
    lifecycle = Lifecycle(engine, resource)
    present = await lifecycle.generations()
    live, alias = present.live, lifecycle.alias
    mark = await read_mark(engine.client, engine.connection.control_index, alias)
    return ResourceStatus(
        resource=resource.alias,
        alias=alias,
        live=live,
        others=[index for index in present.metas if index != live],
        documents=await lifecycle.count(live, LIVE) if live else 0,
        tombstones=await lifecycle.count(live, DELETED) if live else 0,
        size=await lifecycle.size(live) if live else 0,
        is_current=live is not None and present.fingerprint(live) == lifecycle.fingerprint,
        mark=mark.clock if mark else None,
        last=await last(engine, alias),
        build=await _build(engine, alias, live),
        sources=[each for each in followed if resource.alias in each.resources],
    )


async def _build(engine: Engine, alias: str, live: str | None) -> Progress | None:
    progress = await Checkpoint(engine, alias).read()
    return progress if progress is not None and progress.candidate != live else None
