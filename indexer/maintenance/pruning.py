"""Pruning: deletes superseded generations, tombstones past their retention, and copies that records have left."""

from collections.abc import AsyncIterator, Callable, Iterable
from itertools import chain
from typing import NamedTuple

from cluster.control_index import read_mark
from indexer.after_publish import after_publish
from indexer.bulk import delete_documents
from indexer.changes.shard_crossings import needless_copies
from indexer.changes.stamps import expired_tombstones
from indexer.changes.write_session import WriteSession, open_write_session
from indexer.errors import translate_client_errors
from indexer.generations.checkpoint import BuildCheckpoint
from indexer.generations.lifecycle import GenerationLifecycle
from indexer.lock import ignore_wait, open_run
from indexer.scan import IndexRow, scan_rows
from indexer.settings import IndexerContext
from mappings import RESOURCES, Resource
from mappings.shards import ShardRanges


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
