"""Pruning: deletes superseded generations, and tombstones past their retention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from indexer.build.build_checkpoint import BuildCheckpoint
from indexer.changes.retention import expired_tombstones
from indexer.changes.write_session import open_write_session
from indexer.control.event_ledger import publish_events
from indexer.errors import ElasticsearchError, error_reason, translate_client_errors
from indexer.indices.backoff import retry
from indexer.indices.bulk import BULK_HEADERS
from indexer.indices.lifecycle import GenerationLifecycle
from indexer.indices.scan import scan_rows
from indexer.lock.distributed_lock import acquire_lock, ignore_wait
from mappings import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Callable

    from indexer.changes.write_session import WriteSession
    from indexer.context import IndexerContext
    from mappings import Resource

_BATCH_TOMBSTONES = 1_000


async def purge_tombstones(context: IndexerContext, resource: Resource, on_wait: Callable[[str], None]) -> int:
    """Delete the expired tombstones of the live generation and return their number.

    Their highest sequence is published as forgotten before the first is deleted.
    """
    lifecycle = GenerationLifecycle(context, resource)
    live = await lifecycle.live()
    if live is None or not await lifecycle.count(live, expired_tombstones(context)):
        return 0
    async with open_write_session(context, resource, on_wait) as session:
        pages = scan_rows(context, session.live, query=expired_tombstones(context))
        expired = [row async for page in pages for row in page]
        await session.publish_forgotten(max((row.sequence for row in expired), default=0))
        for at in range(0, len(expired), _BATCH_TOMBSTONES):
            await _delete(session, [row.id for row in expired[at : at + _BATCH_TOMBSTONES]])
        await lifecycle.refresh(session.live)
    return len(expired)


async def _delete(session: WriteSession, identifiers: list[str]) -> None:
    """Delete documents through the fence; no other run can write meanwhile, so no versions are needed.

    Raises ElasticsearchError if one cannot be deleted, for example because another run has removed the fence.
    """
    body = b"".join(b'{"delete":{"_id":%b}}\n' % orjson.dumps(identifier) for identifier in identifiers)
    context, path = session.context, f"/{session.fence}/_bulk?require_alias=true&filter_path=errors,items.*.error"
    send = context.client.perform_request
    response = await retry(lambda: send("POST", path, headers=BULK_HEADERS, body=body), context.settings.retry_seconds)
    if response.body["errors"]:
        refused = next(item["delete"] for item in response.body["items"] if item)
        raise ElasticsearchError(f"Elasticsearch did not delete a tombstone: {error_reason(refused)}.")


async def prunable(context: IndexerContext) -> tuple[list[str], int]:
    """Return the indices, and the number of tombstones, that pruning would delete."""
    with translate_client_errors():
        names, tombstones = list[str](), 0
        for lifecycle in [GenerationLifecycle(context, resource) for resource in RESOURCES]:
            present = await lifecycle.generations()
            names += lifecycle.prunable(present)
            tombstones += await lifecycle.count(present.live, expired_tombstones(context)) if present.live else 0
        return names, tombstones


async def prune(context: IndexerContext, on_wait: Callable[[str], None] = ignore_wait) -> tuple[list[str], int]:
    """Delete superseded indices and expired tombstones; return the index names and the number of tombstones.

    Raises ElasticsearchError or LockedError.
    """
    with translate_client_errors():
        seconds, names, tombstones = context.settings.lock_wait_seconds, list[str](), 0
        control = context.connection.control_index
        async with acquire_lock(context.client, control, wait_seconds=seconds, on_wait=on_wait) as lock:
            for resource in RESOURCES:
                lifecycle = GenerationLifecycle(context, resource)
                await lock.verify()
                deleted = await lifecycle.prune(await lifecycle.generations())
                await _clear_build(context, lifecycle.alias, deleted)
                names += deleted
                tombstones += await purge_tombstones(context, resource, on_wait)
        await publish_events(context)
        return names, tombstones


async def _clear_build(context: IndexerContext, alias: str, deleted: list[str]) -> None:
    """Clear the checkpoint of a build whose candidate was deleted."""
    checkpoint = BuildCheckpoint(context, alias)
    progress = await checkpoint.read()
    if progress is not None and progress.candidate in deleted:
        await checkpoint.clear()
