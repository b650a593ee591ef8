"""Repair of what a run under a clock that was ahead has left: stamps and watermarks in the future."""

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import structs

from cluster.control_index import Mark
from indexer.changes.document_copies import restamped_write, write_all
from indexer.changes.write_session import WriteSession, open_write_session
from indexer.clock import is_ahead, now_milliseconds
from indexer.context import IndexerContext
from indexer.errors import translate_client_errors
from indexer.indices.adaptive_limit import AdaptiveLimit
from indexer.indices.bulk import BulkOptions, BulkSender
from indexer.indices.lifecycle import GenerationLifecycle
from indexer.indices.scan import scan_documents
from indexer.lock.distributed_lock import acquire_lock, ignore_wait
from mappings import Resource
from mappings.stored_document import stamped_sequence

_SECOND = 1_000  # milliseconds


@dataclass(frozen=True)
class ClockRepair:
    """What was repaired of a resource: the watermark's clock before and after, and the restamped documents.

    Clocks are in milliseconds since 1970. `documents` counts every generation. `late_readers_start_over` says that
    readers by time which were given a watermark from the future, and do not ask before its time has come, miss changes
    unless they start over.
    """

    before: int
    after: int
    documents: int
    late_readers_start_over: bool


async def repair_clock(
    context: IndexerContext, resource: Resource, on_wait: Callable[[str], None] = ignore_wait
) -> ClockRepair | None:
    """Bring a resource's stamps and watermark back from the future; return None if there is nothing to repair.

    Sequences stay, so tokens of the change feed remain valid. Raises ClockError while this host's own clock is wrong,
    ElasticsearchError or LockedError.
    """
    control, seconds = context.connection.control_index, context.settings.lock_wait_seconds
    with translate_client_errors():
        if await GenerationLifecycle(context, resource).live() is None:
            return None
        async with (
            acquire_lock(context.client, control, wait_seconds=seconds, on_wait=on_wait),
            open_write_session(context, resource, on_wait) as session,
        ):
            return await _repair(session)


async def _repair(session: WriteSession) -> ClockRepair | None:
    now, before = now_milliseconds(), session.stamps.mark.clock
    if not is_ahead(before, session.context.settings.clock_seconds):
        return None
    present = await session.lifecycle.generations()
    documents = sum([await _restamp(session, index, now) for index in present.metas])
    await session.lock.verify()
    mark = repaired_mark(session.stamps.mark, now)
    await session.publish_mark(structs.replace(mark, generation=session.live, index=session.identity))
    return ClockRepair(before, now, documents, mark.is_void_long)


def repaired_mark(mark: Mark, now: int) -> Mark:
    """Return the mark at the present; readers that an earlier repair sent back to another time are sent there still.

    If a new life began while the clock was ahead, readers with clocks from then read everything.
    """
    repaired = mark.repaired if mark.void > now else now
    if mark.resend_before > now:
        second = now // _SECOND * _SECOND
        mark, repaired = structs.replace(mark, resend_before=second), 0
    return structs.replace(mark, clock=now, repaired=repaired, void=max(mark.void, mark.clock))


async def _restamp(session: WriteSession, index: str, now: int) -> int:
    """Set the clock of an index's documents from the future to the present; return their number.

    Every generation is repaired, since a rebuild or a rollback continues from its stamps.
    """
    context, count = session.context, 0
    await session.lifecycle.refresh(index)
    target = session.fence if index == session.live else index
    ranges, is_live = await session.lifecycle.ranges(index), index == session.live
    options = BulkOptions(replaces_equal=True, require_alias=is_live, opaque_id=session.lock.opaque_id, ranges=ranges)
    sender = BulkSender(context.client, target, AdaptiveLimit(context.settings), context.settings, options)
    from_future = {"range": {"clock": {"gt": now}}}
    async for page in scan_documents(context, index, query=from_future, order="feed_key"):
        await write_all(
            sender, [restamped_write(document, now, stamped_sequence(document.source)) for document in page]
        )
        count += len(page)
    await session.lifecycle.refresh(index)
    return count
