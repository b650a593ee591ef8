"""The generations of each resource: their status, and what is deleted of them because nothing needs it.

The status has counts, sizes, the schema, problems of shards, and the last run. Superseded generations, tombstones past
their retention, and copies that records have left in other shards are pruned.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import orjson

from cluster.control_index import StandingTroubles, overdue_sentence, read_mark
from cluster.index_state import (
    SHARD_COLUMNS,
    IndexFragmentation,
    large_shards,
    missing_copies,
    missing_shards,
    read_copies,
)
from indexer.after_publish import after_publish
from indexer.bulk import delete_documents
from indexer.changes.epochs import replaced_resources
from indexer.changes.shard_crossings import needless_copies
from indexer.changes.stamps import expired_tombstones
from indexer.changes.write_session import WriteSession, open_write_session
from indexer.clock import is_ahead
from indexer.control import RunRecord, read_last_run
from indexer.errors import translate_client_errors
from indexer.generations.checkpoint import BuildCheckpoint, BuildProgress
from indexer.generations.lifecycle import DELETED_QUERY, LIVE_QUERY, GenerationLifecycle, index_fragmentation
from indexer.lock import ignore_wait, open_run
from indexer.reso.replication_status import ReplicationStatus, read_replications
from indexer.scan import IndexRow, scan_rows
from indexer.settings import IndexerContext
from indexer.troubles import read_totals
from mappings import RESOURCES, Resource
from mappings.shards import ShardRanges


@dataclass(frozen=True)
class ResourceStatus:
    """The served state of a resource. `mark` is milliseconds since 1970, `size` bytes on disk including replicas."""

    resource: str
    alias: str
    live: str | None
    others: list[str]
    documents: int | None  # None if a shard is on no node, so that they cannot be counted
    tombstones: int | None
    shards: int  # of the live index
    shard_problems: list[str]  # a sentence for each
    size: int
    fragmentation: IndexFragmentation | None  # of the live index
    troubles: StandingTroubles  # records that are not served as their source says
    overdue: str  # that some of them have been so for too long, in a sentence; empty if none has
    is_current: bool  # the live index has the schema that this program declares
    mark: int | None
    is_mark_ahead: bool  # of this host's clock, by more than BROKERAGE_CLOCK_SECONDS
    last: RunRecord | None
    build: BuildProgress | None  # a build that is running, was interrupted, or was refused
    sources: list[ReplicationStatus]  # the replications that write into it
    is_replaced: bool  # its data, or the control index, were restored or replaced since the last run


async def status(context: IndexerContext) -> list[ResourceStatus]:
    """Return the status of every resource; raise ElasticsearchError or RefusedError."""
    with translate_client_errors():
        replications, replaced = await read_replications(context), await replaced_resources(context)
        return [
            await _status(context, resource, replications, is_replaced=resource in replaced) for resource in RESOURCES
        ]


async def _status(
    context: IndexerContext, resource: Resource, replications: list[ReplicationStatus], *, is_replaced: bool
) -> ResourceStatus:
    lifecycle = GenerationLifecycle(context, resource)
    present = await lifecycle.generations()
    live, alias = present.live, lifecycle.alias
    mark = await read_mark(context.client, context.connection.control_index, alias)
    standing = (await read_totals(context, [resource]))[resource]
    problems, is_whole = await shard_problems(context, live) if live else ([], True)
    return ResourceStatus(
        resource=resource.alias,
        alias=alias,
        live=live,
        others=[index for index in present.metas if index != live],
        documents=await _count(lifecycle, live, LIVE_QUERY) if is_whole else None,
        tombstones=await _count(lifecycle, live, DELETED_QUERY) if is_whole else None,
        shards=present.ranges(live).count if live else 0,
        shard_problems=problems,
        size=await lifecycle.size(live) if live else 0,
        fragmentation=await index_fragmentation(context, live) if live else None,
        troubles=standing,
        overdue=overdue_sentence(standing, context.settings.trouble_hours),
        is_current=live is not None and present.fingerprint(live) == lifecycle.fingerprint,
        mark=mark.clock if mark else None,
        is_mark_ahead=mark is not None and is_ahead(mark.clock, context.settings.clock_seconds),
        last=await read_last_run(context, alias),
        build=await _build(context, alias, live),
        sources=[replication for replication in replications if resource.alias in replication.resources],
        is_replaced=is_replaced,
    )


async def _count(lifecycle: GenerationLifecycle, live: str | None, query: dict[str, Any]) -> int:
    return await lifecycle.count(live, query) if live else 0


async def _build(context: IndexerContext, alias: str, live: str | None) -> BuildProgress | None:
    progress = await BuildCheckpoint(context, alias).read()
    return progress if progress is not None and progress.candidate != live else None


async def shard_problems(context: IndexerContext, index: str) -> tuple[list[str], bool]:
    """Return a sentence for each problem, and whether every shard can be read."""
    rows: Any = await context.cluster.cat.shards(index=index, format="json", bytes="b", h=[*SHARD_COLUMNS])
    copies = read_copies(orjson.loads(rows.body))  # the client does not parse this kind of response
    missing = [*missing_shards(copies)]
    others = [*missing_copies(copies), *large_shards(copies, context.settings.shard_gigabytes)]
    return missing + others, not missing


class Pruned(NamedTuple):
    """What pruning deletes: indices by name, and the numbers of expired tombstones and of copies in other shards."""

    indices: list[str]
    tombstones: int
    copies: int


async def _purge(context: IndexerContext, resource: Resource, on_wait: Callable[[str], None]) -> Pruned:
    """Delete what the live generation need not keep: expired tombstones, then copies that records have left."""
    found = await _purgeable(context, GenerationLifecycle(context, resource))
    if not found.tombstones and not found.copies:
        return found
    async with open_write_session(context, resource, on_wait) as session:
        tombstones = await _purge_tombstones(session)
        copies = await _purge_copies(session)
        await session.lifecycle.refresh(session.live)
    return Pruned([], tombstones, copies)


async def _purge_tombstones(session: WriteSession) -> int:
    """Delete the expired tombstones; their highest sequence is published as forgotten before the first is deleted."""
    context = session.context
    pages = scan_rows(context, session.live, query=expired_tombstones(context))
    expired = [row async for page in pages for row in page]
    await session.publish_forgotten(max((row.sequence for row in expired), default=0))
    # No other run can write meanwhile.
    await delete_documents(session.sender(), expired)
    return len(expired)


async def _purge_copies(session: WriteSession) -> int:
    await session.lifecycle.refresh(session.live)
    count, sender = 0, session.sender()
    async for page in _copies(session.context, session.lifecycle.alias, session.live, sender.ranges):
        await delete_documents(sender, page)
        count += len(page)
    return count


async def _copies(context: IndexerContext, alias: str, live: str, ranges: ShardRanges) -> AsyncIterator[list[IndexRow]]:
    mark = await read_mark(context.client, context.connection.control_index, alias)
    async for page in needless_copies(context, live, ranges, mark.sequence if mark else 0):
        yield page


async def _purgeable(context: IndexerContext, lifecycle: GenerationLifecycle) -> Pruned:
    if (live := await lifecycle.live()) is None:
        return Pruned([], 0, 0)
    pages = _copies(context, lifecycle.alias, live, await lifecycle.ranges(live))
    copies = sum([len(page) async for page in pages])
    return Pruned([], await lifecycle.count(live, expired_tombstones(context)), copies)


async def prunable(context: IndexerContext) -> Pruned:
    with translate_client_errors():
        found = []
        for lifecycle in [GenerationLifecycle(context, resource) for resource in RESOURCES]:
            names = lifecycle.prunable(await lifecycle.generations())
            found.append((await _purgeable(context, lifecycle))._replace(indices=names))
        return _sum(found)


async def prune(context: IndexerContext, on_wait: Callable[[str], None] = ignore_wait) -> Pruned:
    """Delete superseded indices, expired tombstones, and copies that records have left in other shards.

    Raises ElasticsearchError or LockedError.
    """
    found = []
    async with open_run(context, on_wait) as lock:
        for resource in RESOURCES:
            lifecycle = GenerationLifecycle(context, resource)
            await lock.verify()
            deleted = await lifecycle.prune(await lifecycle.generations())
            await _clear_build(context, lifecycle.alias, deleted)
            found.append((await _purge(context, resource, on_wait))._replace(indices=deleted))
        await after_publish(context)
    return _sum(found)


def _sum(found: Iterable[Pruned]) -> Pruned:
    indices, tombstones, copies = zip(*found, strict=True)
    return Pruned([*chain(*indices)], sum(tombstones), sum(copies))


async def _clear_build(context: IndexerContext, alias: str, deleted: list[str]) -> None:
    checkpoint = BuildCheckpoint(context, alias)
    progress = await checkpoint.read()
    if progress is not None and progress.candidate in deleted:
        await checkpoint.clear()
