"""The exclusive right to write to the live generation of one resource: a lock, a fence in Elasticsearch, and stamps.

A run that takes the lock over moves the fence, so a suspended writer finds its target gone: none of its writes arrive
after the next mark is published.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cluster.control_index import Mark
from indexer.bulk import AdaptiveLimit, BulkOptions, BulkSender, bulk_sender
from indexer.changes.rewrites import move_pages, restamped_write, write_all
from indexer.changes.shard_crossings import ShardCrossings, mark_left, recall_crossings
from indexer.changes.stamps import LiveStamps, baseline_mark
from indexer.clock import ClockWatch
from indexer.control import (
    MarkStore,
    StoredIdentities,
    begin_epoch,
    continued,
    mark_of_unknown,
    read_identities,
)
from indexer.errors import RefusedError
from indexer.generations.lifecycle import GenerationLifecycle, Generations, lift_left_block, refresh_to_seq_nos
from indexer.lock import DistributedLock, acquire_lock, create_fence, remove_fence, require_sole_writer
from indexer.scan import fetch_documents
from indexer.settings import IndexerContext
from mappings import Resource
from mappings.shards import ShardRanges

# Longer than a bulk request may take.
_BULK_TASK_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True)
class WriteSession:
    """An open session: the live index, the fence to write through, and the stamps to assign.

    `previous` is the generation that a rollback would bring back, if it is kept and has the current schema. `crossings`
    are the records that changed their shard of the live index lately.
    """

    context: IndexerContext
    lifecycle: GenerationLifecycle
    lock: DistributedLock
    live: str
    fence: str
    stamps: LiveStamps
    previous: str | None
    mark_store: MarkStore
    identity: str  # of the live index
    fields: frozenset[str]  # that the live index maps
    clock: ClockWatch
    crossings: ShardCrossings
    previous_ranges: ShardRanges

    def sender(self, limit: AdaptiveLimit | None = None) -> BulkSender:
        """Return a sender that writes only while the fence exists; of equal versions the last one sent wins."""
        ranges = self.crossings.ranges
        options = BulkOptions(replaces_equal=True, require_alias=True, opaque_id=self.lock.opaque_id, ranges=ranges)
        return bulk_sender(self.context, self.fence, options, limit)

    async def publish(self) -> None:
        """Refresh the live index, then publish the mark; raise LockedError if the lock was lost, or ClockError."""
        await self.clock.check_if_set()
        mark = self.stamps.next_mark(self.live, self.identity)
        await self.finish_crossings()
        await self.lifecycle.refresh(self.live)
        await self.lock.verify()
        await self.publish_mark(mark)
        self.crossings.forget()

    async def finish_crossings(self) -> None:
        """Mark the copies that records have left, if a batch was stopped before it did."""
        if not self.crossings.unmarked:
            return
        await self.lifecycle.refresh(self.live)
        sender = self.sender()
        await mark_left(self.context, self.live, self.crossings, sender, self.crossings.unmarked)

    async def begin_epoch(self) -> None:
        """Publish that the data do not continue those that were published before; raise as `publish`."""
        self.stamps.begin_epoch(self.clock.latest_mark())
        await self.publish()

    async def publish_forgotten(self, sequence: int) -> None:
        """Publish that tombstones up to `sequence` may be gone, before any is deleted; raise as `publish`."""
        if sequence > self.stamps.mark.forgotten:
            self.stamps.raise_forgotten(sequence)
            await self.publish()

    async def publish_mark(self, mark: Mark) -> None:
        """Publish a mark that was taken before the last refresh, or before the swap.

        Raises LockedError if another run has taken over the lock, and with it the mark.
        """
        await self.mark_store.publish(mark)


@asynccontextmanager
async def open_write_session(
    context: IndexerContext, resource: Resource, on_wait: Callable[[str], None]
) -> AsyncIterator[WriteSession]:
    """Open a session on a resource's live generation; raise RefusedError if there is none, or ClockError."""
    lifecycle, clock = GenerationLifecycle(context, resource), ClockWatch(context)
    await clock.check()
    async with acquire_lock(
        context.client,
        context.connection.control_index,
        f"write-{lifecycle.alias}",
        wait_seconds=context.settings.write_wait_seconds,
        on_wait=on_wait,
    ) as lock:
        session = await _open_session(context, lifecycle, lock, clock)
        try:
            yield session
        finally:
            await remove_fence(context, session.live, session.fence)


async def _open_session(
    context: IndexerContext, lifecycle: GenerationLifecycle, lock: DistributedLock, clock: ClockWatch
) -> WriteSession:
    """Create the fence, and wait for the requests of an earlier holder before stamps are assigned.

    Moves that it wrote and did not publish are recovered.
    """
    live, fence = await _fenced_live(context, lifecycle, lock.token)
    await require_sole_writer(context, lock, _BULK_TASK_TIMEOUT_SECONDS)
    await refresh_to_seq_nos(context.cluster, live)
    mark_store, present = MarkStore(context, lifecycle.alias, lock.token), await lifecycle.generations()
    mark, stored = await mark_store.claim(), await read_identities(context, live, clock)
    await lift_left_block(context, lifecycle, live, present.metas.get(live, {}))
    retained = present.history[: context.settings.kept_generations]
    previous = [index for index in retained[1:2] if present.fingerprint(index) == lifecycle.fingerprint]
    for index in previous:  # stale updates may have been stamped there and never published
        await lifecycle.refresh(index)
    known = _mark_to_continue(mark, present, stored, live)
    stamps = LiveStamps(await baseline_mark(context, [live, *previous], known), clock.now)
    rollback_target, published = previous[0] if previous else None, mark.sequence if mark else 0
    crossings = ShardCrossings(present.ranges(live))
    session = WriteSession(
        context,
        lifecycle,
        lock,
        live,
        fence,
        stamps,
        rollback_target,
        mark_store,
        stored.generation,
        present.fields.get(live, frozenset()),
        clock,
        crossings,
        present.ranges(rollback_target or ""),
    )
    sender = session.sender()
    crossed = await recall_crossings(context, live, crossings, sender, published)
    if crossed and mark is not None:
        await republish(session, crossed)
    if is_unpublished := stamps.sequence > published:
        await _recover_moves(session, published)
    # This run may find all unchanged that an interrupted one wrote, and would then publish nothing.
    if mark is None or is_unpublished or stamps.mark.epoch_id != mark.epoch_id:
        await session.publish()
    return session


def _mark_to_continue(mark: Mark | None, present: Generations, stored: StoredIdentities, live: str) -> Mark:
    """Return the mark to continue from, in a new epoch if it belongs to none of the live generation's predecessors.

    That happens when a rollback, or the first build after a loss, was killed between its swap and its mark, or when an
    earlier generation was restored.
    """
    if mark is None:
        return mark_of_unknown(live, stored)
    if mark.generation not in present.history:
        return begin_epoch(mark, stored)
    return continued(mark, stored, live)


async def _fenced_live(context: IndexerContext, lifecycle: GenerationLifecycle, token: int) -> tuple[str, str]:
    """Return the live index and its fence. An earlier holder may swap just before it loses its fence."""
    live, seen = await lifecycle.live(), None
    while live is not None and live != seen:
        fence = await create_fence(context, f"{lifecycle.alias}-writer", token, live)
        seen, live = live, await lifecycle.live()
    if live is None:
        raise await _without_live_index(context, lifecycle.alias)
    return live, fence


async def _without_live_index(context: IndexerContext, alias: str) -> RefusedError:
    mark = await MarkStore(context, alias).read()
    if mark is None:
        return RefusedError(f"{alias} was never built: load it once with `brokerage index reindex`.")
    return RefusedError(
        f"The alias {alias} is missing, which pointed to {mark.generation}: add it again with `POST _aliases`, or load "
        "everything with `brokerage index reindex`."
    )


async def _recover_moves(session: WriteSession, above: int) -> None:
    """Republish records whose move was written above `above` by an interrupted run that did not move them."""
    async for page in move_pages(session.context, session.live, {"gt": above}):
        if unmoved := {record.id for move, record in page if record.sequence < move.sequence}:
            await republish(session, unmoved)


async def republish(session: WriteSession, identifiers: Iterable[str]) -> None:
    """Assign new stamps to the live documents of some records, and refresh."""
    await session.finish_crossings()  # of two copies the one with the later stamp is newer
    await session.lifecycle.refresh(session.live)
    documents = await fetch_documents(session.context, session.live, sorted(identifiers))
    sender = session.sender()
    await write_all(sender, [restamped_write(document, *session.stamps.next_stamp()) for document in documents])
    await session.lifecycle.refresh(session.live)
