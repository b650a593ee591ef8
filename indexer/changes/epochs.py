"""New epochs of data that were restored (decision 18), and the repair of stamps of a clock that was ahead.

A new epoch is begun for all resources before a run changes any of them, or by command after a restore, so that
consumers start again from what is there. Stamps and watermarks of a run under a clock that was ahead are in the future.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import structs

from cluster.control_index import Mark, mark_id
from indexer.after_publish import after_publish
from indexer.bulk import BulkOptions, bulk_sender
from indexer.changes.rewrites import restamped_write, write_all
from indexer.changes.write_session import WriteSession, open_write_session
from indexer.clock import is_ahead, now_milliseconds
from indexer.control import (
    StoredIdentities,
    is_replaced,
    read_all_identities,
    read_documents,
)
from indexer.errors import RefusedError, translate_client_errors
from indexer.generations.lifecycle import GenerationLifecycle, live_generations
from indexer.lock import ignore_wait, open_run
from indexer.reso.event_ledger import renumber_events
from indexer.scan import scan_documents
from indexer.settings import IndexerContext
from mappings import RESOURCES, Resource
from mappings.stored_document import stamped_sequence


async def begin_due_epochs(context: IndexerContext, on_wait: Callable[[str], None]) -> list[str]:
    """Begin a new epoch of each resource whose data, or marks, were restored, replaced or lost since the last run.

    Returns the names of the present epochs. Raises LockedError or RefusedError.
    """
    marks, live = await asyncio.gather(_read_marks(context), live_generations(context))
    without_mark = [resource for resource in RESOURCES if resource in live and resource not in marks]
    due = [*await _replaced(context, marks), *without_mark]
    for resource in due:
        if await GenerationLifecycle(context, resource).live() is not None:
            async with open_write_session(context, resource, on_wait):
                pass  # a session begins a new epoch where one is due
    present = await _read_marks(context) if due else marks
    return [mark.epoch_id for mark in present.values() if mark.epoch_id]


async def replaced_resources(context: IndexerContext) -> list[Resource]:
    """Return the resources whose mark describes another control index, or another index than there is now."""
    return await _replaced(context, await _read_marks(context))


async def _replaced(context: IndexerContext, marks: Mapping[Resource, Mark]) -> list[Resource]:
    control = context.connection.control_index
    found = await read_all_identities(context, [control, *(mark.generation for mark in marks.values())])
    return [resource for resource, mark in marks.items() if _is_replaced(mark, found, control)]


def _is_replaced(mark: Mark, found: dict[str, str], control: str) -> bool:
    stored = StoredIdentities(found.get(control, ""), found.get(mark.generation, ""))
    return not stored.generation or is_replaced(mark, stored, mark.generation)


async def _read_marks(context: IndexerContext) -> dict[Resource, Mark]:
    alias = context.connection.alias
    ids = {mark_id(alias(resource)): resource for resource in RESOURCES}
    documents = filter(None, await read_documents(context, [*ids]))
    return {ids[document["_id"]]: msgspec.convert(document["_source"], Mark) for document in documents}


async def begin_new_epochs(
    context: IndexerContext,
    resources: Sequence[Resource] = RESOURCES,
    on_wait: Callable[[str], None] = ignore_wait,
) -> list[str]:
    """Begin a new epoch of each loaded resource and return their aliases.

    Tokens and event numbers from before are void, and readers by time read everything once more. Raises
    ElasticsearchError, LockedError, or RefusedError if nothing is loaded.
    """
    with translate_client_errors():
        loaded = [resource for resource in resources if await GenerationLifecycle(context, resource).live() is not None]
        if not loaded:
            raise RefusedError("Nothing is loaded: restore the indices first, or load them with `index reindex`.")
        for resource in loaded:
            async with open_write_session(context, resource, on_wait) as session:
                await session.begin_epoch()
        await renumber_events(context)
        await after_publish(context)
        return [resource.alias for resource in loaded]


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
    with translate_client_errors():
        if await GenerationLifecycle(context, resource).live() is None:
            return None
    async with open_run(context, on_wait), open_write_session(context, resource, on_wait) as session:
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

    If a new epoch began while the clock was ahead, readers with clocks from then read everything.
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
    sender = bulk_sender(context, target, options)
    from_future = {"range": {"clock": {"gt": now}}}
    async for page in scan_documents(context, index, query=from_future, order="feed_key"):
        await write_all(
            sender, [restamped_write(document, now, stamped_sequence(document.source)) for document in page]
        )
        count += len(page)
    await session.lifecycle.refresh(index)
    return count
