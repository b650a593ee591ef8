"""Applies documents to the live index of one resource: look up, stamp, write, refresh, and publish the mark."""

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

from elasticsearch import ApiError, TransportError

from indexer.bulk import AdaptiveLimit, BulkOptions, BulkResult, BulkSender, BulkWrite, bulk_sender, delete_documents
from indexer.changes.rewrites import compared, known_move_id, move_for_update, version_over, write_all
from indexer.changes.shard_crossings import Crossing, KnownIntervals
from indexer.changes.stamps import Change, ChangeKind, Stamp, change_of, in_order_of_arrival, split_taken
from indexer.changes.write_session import WriteSession, open_write_session, republish
from indexer.documents.builder import PendingDocument
from indexer.documents.companies import ALL_COMPANIES
from indexer.errors import LockedError, RefusedError
from indexer.generations.lifecycle import refresh_completely
from indexer.scan import IndexRow, StoredDocument, fetch_documents, look_up_rows
from indexer.settings import IndexerContext
from mappings import Resource
from mappings.indices import mapped_names
from mappings.stored_document import feed_key, stamped_changes, stored_feed_key


@dataclass
class UpdateResult:
    """Counts of applied documents, and these with the live states of their records before, or with a reason."""

    indexed: int = 0
    unchanged: int = 0
    served: list[tuple[PendingDocument, IndexRow | None]] = field(default_factory=list)
    stale: list[tuple[PendingDocument, IndexRow]] = field(default_factory=list)
    rejected: list[tuple[PendingDocument, str]] = field(default_factory=list)

    def add_rejected(self, result: BulkResult) -> set[str]:
        rejected = [(write.document, reason) for write, reason in result.rejected if write.document is not None]
        self.rejected += rejected
        return {document.id for document, _ in rejected}


_BeforeWait = Callable[[], Awaitable[None]]


async def _release_nothing() -> None:
    """Release nothing: there is no other resource."""


# Losing the lock this often in a row is not a coincidence.
_MAX_ATTEMPTS = 3
# How long a run that requests the lock has to acquire it.
_YIELD_POLLS, _YIELD_POLL_SECONDS = 20, 0.25


class UpdateWriter:
    """Writes to one resource. It holds the write lock until another run requests it, and reacquires it on demand."""

    covered = ALL_COMPANIES  # live records of other companies are not replaced
    before_wait: _BeforeWait = staticmethod(_release_nothing)  # awaited before it waits for the lock

    def __init__(
        self, context: IndexerContext, resource: Resource, limit: AdaptiveLimit, on_wait: Callable[[str], None]
    ) -> None:
        """Acquire the lock lazily."""
        self._context = context
        self.alias = context.connection.alias(resource)
        self._resource = resource
        self._limit = limit
        self._on_wait = on_wait
        self._session_stack = AsyncExitStack()
        self._session: WriteSession | None = None
        self._written: dict[str, IndexRow] = {}  # since the last refresh, so not yet visible to a search
        self._unpublished: dict[str, PendingDocument] = {}  # those of them that have new stamps
        self._unfinished_moves: set[str] = set()  # records with a move whose new document may not be written yet
        self._lost: dict[str, PendingDocument] = {}  # unpublished when the lock was lost

    async def apply(self, documents: dict[str, PendingDocument]) -> UpdateResult:
        """Write documents, one per record, that are newer than the live state.

        If the lock is lost, it is reacquired, and everything unpublished is written again with new stamps.
        """
        restamped: set[str] = set()
        for _ in range(_MAX_ATTEMPTS):
            session = await self.open_session()
            lost, self._lost = self._lost, {}
            restamped |= lost.keys()
            try:
                repeated = [document for document in lost.values() if document.id not in documents]
                await self._write(session, repeated, restamped)
                return await self._write(session, documents.values(), restamped)
            except LockedError:
                self._lost = {**lost, **self._unpublished}
                restamped |= documents.keys()
                await self.release()
        raise LockedError(f"The lock of {self._resource.alias} was lost {_MAX_ATTEMPTS} times; the update stopped.")

    async def open_session(self) -> WriteSession:
        """Return the session, opened if there is none."""
        if self._session is None:
            session = await self._enter_session()
            _require_declared_fields(session, self._resource)
            self._session = session
        else:
            await self._session.clock.check_if_set()
        return self._session

    async def _enter_session(self) -> WriteSession:
        """Open a session at once, or await `before_wait` and then wait for the lock; raise LockedError.

        A run that waits must not hold locks of other resources: the swap of a rebuild holds several, and may wait for
        them.
        """
        try:
            return await self._enter_session_within(0.0)
        except LockedError:
            await self.before_wait()
        return await self._enter_session_within(self._context.settings.write_wait_seconds)

    async def _enter_session_within(self, seconds: float) -> WriteSession:
        context = replace(self._context, settings=replace(self._context.settings, write_wait_seconds=seconds))
        return await self._session_stack.enter_async_context(open_write_session(context, self._resource, self._on_wait))

    async def release(self) -> None:
        """Release the lock until there is more to write."""
        self._session, stack = None, self._session_stack
        self._session_stack, self._written, self._unpublished, self._unfinished_moves = AsyncExitStack(), {}, {}, set()
        await stack.aclose()

    async def _write(
        self, session: WriteSession, documents: Iterable[PendingDocument], restamped: Container[str]
    ) -> UpdateResult:
        """Write documents newer than the known state, and those in `restamped` even if they are already stored."""
        result, planned = UpdateResult(), list[Change]()
        known = await self._look_up(session, [document.id for document in documents])
        free, result.rejected = split_taken(documents, known, self.covered)
        for given in free:
            live = known.get(given.id)
            change = change_of(in_order_of_arrival(given, live), live)
            if change.is_stored and given.id in restamped:
                change = change._replace(kind=ChangeKind.CHANGED)
            if change.kind is ChangeKind.STALE and change.known is not None:
                result.stale.append((change.document, change.known))
            elif change.kind is ChangeKind.CHANGED or not change.is_stored:
                planned.append(change)
            else:
                result.unchanged += 1
                result.served.append((change.document, change.known))
        await self._write_moves(session, planned, result)
        planned = await compared(self._context, self._resource, session.live, planned, self._unpublished)
        await self._send(session, planned, result)
        await self._write_stale_to_previous(session, [document for document, _ in result.stale])
        return result

    async def _look_up(self, session: WriteSession, identifiers: list[str]) -> dict[str, IndexRow]:
        if not identifiers:
            return {}
        return {**await look_up_rows(self._context, session.live, identifiers), **self._written}

    async def _write_moves(self, session: WriteSession, planned: list[Change], result: UpdateResult) -> None:
        """Write the moves of records that change their company, before the records themselves.

        A record whose move is rejected is removed from `planned`.
        """
        moved = [(row, document) for document, _, row in planned if row and row.company != document.company]
        known = await self._look_up(session, [known_move_id(row) for row, _ in moved])
        move_documents = [(move_for_update(row, document, known), document) for row, document in moved]
        stamps = {move.id: session.stamps.next_stamp() for move, _ in move_documents}
        self._unfinished_moves |= {document.id for _, document in moved}
        versions = {move.id: _write_version(move, known.get(move.id)) for move, _ in move_documents}
        writes = [
            BulkWrite(move.id, versions[move.id], move.stamped_source(*stamps[move.id]), document)
            for move, document in move_documents
        ]
        rejected = result.add_rejected(await session.sender(self._limit).send(writes))
        self._written |= {
            move.id: _row(move, stamps[move.id], versions[move.id])
            for move, document in move_documents
            if document.id not in rejected
        }
        self._unfinished_moves -= rejected
        planned[:] = [write for write in planned if write.document.id not in rejected]

    async def _send(self, session: WriteSession, planned: list[Change], result: UpdateResult) -> None:
        documents = [write.document for write in planned]
        stamps = {document.id: session.stamps.stamp_for(document, kind, row) for document, kind, row in planned}
        changed = {document.id: document for document, kind, _ in planned if kind is ChangeKind.CHANGED}
        self._unpublished |= changed
        versions = {document.id: _write_version(document, row) for document, _, row in planned}
        writes = [_bulk_write(document, stamps[document.id], versions[document.id]) for document in documents]
        move = ShardMove(session, session.sender(self._limit))
        await move.prepare({write.document.id: (write, stamps[write.document.id]) for write in planned})
        rejected = result.add_rejected(await move.send(writes))
        result.indexed += len(changed.keys() - rejected)
        result.unchanged += len(stamps.keys() - changed.keys() - rejected)
        result.served += [(write.document, write.known) for write in planned if write.document.id not in rejected]
        for identifier in rejected:
            self._unpublished.pop(identifier, None)
        self._unfinished_moves -= stamps.keys() - rejected
        self._written |= {
            document.id: _row(document, stamps[document.id], versions[document.id])
            for document in documents
            if document.id not in rejected
        }

    async def _write_stale_to_previous(self, session: WriteSession, stale: list[PendingDocument]) -> None:
        """Write stale documents to the generation that a rollback would restore, where they may be the newest."""
        if session.previous is not None and stale:
            options = BulkOptions(ranges=session.previous_ranges)
            sender = bulk_sender(self._context, session.previous, options, self._limit)
            known = await look_up_rows(self._context, session.previous, [document.id for document in stale])
            changes = [Change(document, ChangeKind.CHANGED, known.get(document.id)) for document in stale]
            following = await compared(self._context, self._resource, session.previous, changes)
            documents = [change.document for change in following]
            stamps = {document.id: session.stamps.next_stamp() for document in documents}
            writes = [_bulk_write(document, stamps[document.id], document.version) for document in documents]
            await sender.send(await _without_older(self._context, sender, writes))

    async def publish(self) -> bool:
        """Refresh and publish the mark; then release the lock if another run requests it.

        Return whether there was anything to publish.
        """
        if self._session is None:
            return False
        if not self._written:
            await self._yield_lock(self._session)
            return False
        try:
            if self._unfinished_moves:
                await republish(self._session, self._unfinished_moves)
            await self._session.publish()
        except LockedError:
            self._lost = {**self._lost, **self._unpublished}
            await self.release()
            await self.apply({})
            return await self.publish()
        self._written, self._unpublished, self._unfinished_moves = {}, {}, set()
        await self._yield_lock(self._session)
        return True

    async def _yield_lock(self, session: WriteSession) -> None:
        if not await _is_requested(session):
            return
        await self.release()
        for _ in range(_YIELD_POLLS):
            await asyncio.sleep(_YIELD_POLL_SECONDS)
            if not await _is_requested(session):
                break


async def _is_requested(session: WriteSession) -> bool:
    try:
        return await session.lock.is_requested()
    except (ApiError, TransportError):
        return False  # asked again soon


def _write_version(document: PendingDocument, known: IndexRow | None) -> int:
    return document.version if known is None else version_over(document.version, known.stored_version)


def _bulk_write(document: PendingDocument, stamp: Stamp, version: int) -> BulkWrite:
    return BulkWrite(document.id, version, document.stamped_source(*stamp), document)


def _row(document: PendingDocument, stamp: Stamp, stored_version: int) -> IndexRow:
    """Return what a search will return once the document is visible."""
    return IndexRow(
        id=document.id,
        feed_key=feed_key(document.company, document.id),
        version=document.version,
        content=document.content,
        clock=stamp[0],
        sequence=stamp[1],
        deleted=document.is_tombstone,
        reason=None,
        stored_version=stored_version,
        changed=stamped_changes(document.changed, stamp[1]),
        past=document.past,
    )


def _require_declared_fields(session: WriteSession, resource: Resource) -> None:
    """Raise RefusedError if the live index lacks fields that documents of this version have."""
    if missing := sorted(mapped_names(resource) - session.fields):
        raise RefusedError(
            f"{session.live} was built by an earlier version and lacks {', '.join(missing)}. "
            f"Rebuild it with `brokerage index reindex SOURCE {resource.alias}`, then repeat the update."
        )


@dataclass
class ShardMove:
    """One batch of updates: `prepare`, then `send`. For an index of one shard it is a plain bulk request."""

    session: WriteSession
    sender: BulkSender
    _left: dict[str, StoredDocument] = field(default_factory=dict)
    _known: dict[str, KnownIntervals] = field(default_factory=dict)

    async def prepare(self, planned: Mapping[str, tuple[Change, Stamp]]) -> None:
        """Read the copies that records leave, and hide them from the sequences of their stamps on."""
        crossings, session = self.session.crossings, self.session
        keys = {name: feed_key(write.document.company, name) for name, (write, _) in planned.items()}
        known = {name: write.known for name, (write, _) in planned.items() if write.known}
        crossing = [name for name, row in known.items() if crossings.crosses(row.feed_key, keys[name])]
        if not crossing:
            return
        await session.lifecycle.refresh(session.live)
        for copy in await fetch_documents(session.context, session.live, crossing):
            clock, sequence = planned[copy.id][1]
            self._left[copy.id] = copy
            self._known[copy.id] = crossings.enter(Crossing(sequence, clock, copy, keys[copy.id]))

    async def send(self, writes: Sequence[BulkWrite]) -> BulkResult:
        """Write the documents, then mark the copies that they leave; raise as `BulkSender.send`."""
        crossings = self.session.crossings
        result = await self.sender.send([crossings.shown(write) for write in writes])
        for write, _ in result.rejected:
            if self._left.pop(write.id, None) is not None:
                crossings.withdraw(write.id, self._known[write.id])
        await write_all(self.sender, [crossings.left_write(copy) for copy in self._left.values()])
        crossings.unmarked -= self._left.keys()
        return result


async def _without_older(context: IndexerContext, sender: BulkSender, writes: list[BulkWrite]) -> list[BulkWrite]:
    """Return the writes that are newer than the copy of the record in another shard, which is deleted.

    For a generation from which no reader is served.
    """
    if not sender.ranges.is_routed:
        return writes
    await refresh_completely(context.cluster, sender.index)
    shard, known = sender.ranges.shard, await look_up_rows(context, sender.index, [write.id for write in writes])
    elsewhere = {
        write.id: known[write.id]
        for write in writes
        if write.id in known and shard(known[write.id].feed_key) != shard(stored_feed_key(write.source))
    }
    newer = [
        write for write in writes if write.id not in elsewhere or write.version > elsewhere[write.id].stored_version
    ]
    await delete_documents(sender, [elsewhere[write.id] for write in newer if write.id in elsewhere])
    return newer
