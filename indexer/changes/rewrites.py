"""Stored documents that are written again: copied into another generation, under another stamp, or as moves.

Consumers of a single company must learn that a record now belongs to another one. A move is a tombstone of its own next
to the record (`mappings.stored_document.move_id`), one for each company that the record has left. Two invariants hold
for everything published:

- A record that moves from one company to another leaves a move that was stamped since.
- A record's stamp is above those of all its moves, so a consumer of several companies receives the record last.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
from msgspec import structs

from indexer.bulk import BulkSender, BulkWrite, delete_documents
from indexer.changes.stamps import (
    PENDING,
    PENDING_MOVE,
    PENDING_REPUBLISHED,
    Change,
    ChangeKind,
    Parts,
    is_continued,
    kept_past,
    remember,
)
from indexer.clock import REPLACED_VERSION_GAP
from indexer.documents.builder import PendingDocument, missing_values, move_document, restricted_hashes
from indexer.errors import RefusedError
from indexer.scan import IndexRow, StoredDocument, fetch_documents, look_up_rows, scan_rows
from indexer.settings import IndexerContext
from mappings import Resource
from mappings.shards import unhide
from mappings.stored_document import (
    TombstoneReason,
    is_move,
    move_id,
    replace_stamp,
    split_document_id,
    split_record,
    stored_feed_key,
    with_changes,
)


def copy_write(resource: Resource, document: StoredDocument, replaced: IndexRow | None = None) -> BulkWrite:
    """Return the write that copies a document; `replaced` is what it replaces, which may be undated.

    A document of an earlier version gets the hashes and search fields that it lacks.
    """
    version = document.version if replaced is None else version_over(document.version, replaced.stored_version)
    hashed = restricted_hashes(resource).complete(with_changes(unhide(document.source)))
    return BulkWrite(document.id, version, missing_values(resource).complete(hashed))


def version_over(version: int, replaced: int) -> int:
    """Return the version under which a state of `version` replaces a document that Elasticsearch has as `replaced`.

    Elasticsearch accepts none below it. It is never one more than the state's own, by which a document that another
    program wrote is recognized.
    """
    return version if replaced <= version else max(replaced, version + REPLACED_VERSION_GAP)


async def fetch_copies(
    context: IndexerContext, resource: Resource, index: str, identifiers: list[str]
) -> list[BulkWrite]:
    """Return the writes that copy the given documents of an index."""
    return [copy_write(resource, document) for document in await fetch_documents(context, index, identifiers)]


def restamped_write(
    document: StoredDocument, clock: int, sequence: int, changed: Sequence[int] | None = None
) -> BulkWrite:
    """Return the write that gives a document another stamp; `changed` as for `replace_stamp`."""
    return BulkWrite(document.id, document.version, replace_stamp(document.source, clock, sequence, changed))


async def write_all(sender: BulkSender, writes: list[BulkWrite]) -> None:
    """Write documents that no source can supply again; raise RefusedError if Elasticsearch rejects one."""
    result = await sender.send(writes)
    for write, reason in result.rejected:
        raise RefusedError(f"{write.id} cannot be copied: {reason}. Nothing was switched.")


async def write_over(sender: BulkSender, writes: list[BulkWrite], known: Mapping[str, IndexRow]) -> None:
    """Write documents over those that a generation has of the same records, `known`; raise as `write_all`.

    Of a record whose copy is in another shard, that copy is deleted first. So readers must not be served from the
    generation, and a run that was killed must repeat its writes.
    """
    if sender.ranges.is_routed:
        shard = sender.ranges.shard
        before = ((known[write.id], write) for write in writes if write.id in known)
        moved = [row for row, write in before if shard(row.feed_key) != shard(stored_feed_key(write.source))]
        await delete_documents(sender, moved)
    await write_all(sender, writes)


class StoredState(msgspec.Struct):
    """The part of a stored document that describes its state, as `IndexRow` has it."""

    id: str
    company: str
    version: int
    content: int
    deleted: bool
    clock: int
    sequence: int
    reason: str | None = None
    changed: list[int] = []
    past: str = ""


_decode_state = msgspec.json.Decoder(StoredState).decode


def stored_state(source: bytes) -> tuple[StoredState, Parts]:
    """Return the state that a stored document describes, and its parts."""
    parts = split_record(source)
    return _decode_state(parts[0] + b"}"), parts


async def compared(
    context: IndexerContext,
    resource: Resource,
    index: str,
    changes: Sequence[Change],
    unseen: Mapping[str, PendingDocument] = MappingProxyType({}),
) -> list[Change]:
    """Return changes of which the documents say what they change of an index, and remember what was before.

    Documents in `unseen` are there already, but cannot be found yet.
    """
    differing = [
        document.id
        for document, kind, known in changes
        if kind is ChangeKind.CHANGED and known is not None and document.record is not None
        if is_continued(document, known) and document.content != known.content
    ]
    fetched = await fetch_documents(context, index, [name for name in differing if name not in unseen])
    stored = {document.id: stored_state(document.source) for document in fetched}
    return [_compared(context, resource, change, stored, unseen) for change in changes]


def _compared(
    context: IndexerContext,
    resource: Resource,
    change: Change,
    stored: Mapping[str, tuple[StoredState, Parts]],
    unseen: Mapping[str, PendingDocument],
) -> Change:
    document, kind, known = change
    if document.record is None:
        return change
    state, before = stored.get(document.id, (known, None))
    if (written := unseen.get(document.id)) is not None and written.record is not None:
        before = written.head, written.record
    past, changed = remember(resource, document, (document.head, document.record), state, before)
    return Change(structs.replace(document, past=kept_past(context, past), changed=changed), kind, known)


Known: TypeAlias = IndexRow | StoredState


Move: TypeAlias = tuple[Known, IndexRow]  # the state that consumers know, and the record under another company


def known_move_id(previous: Known) -> str:
    """Return the id of the move that leaves the given state behind."""
    return move_id(previous.company, previous.id)


def _move_from(previous: Known, company: str, state: tuple[int, int]) -> PendingDocument:
    """Return the move of a known state to another company.

    `state` is the version and content that the record has there. A tombstone keeps its reason, since some consumers
    may not have received it.
    """
    reason = TombstoneReason(previous.reason or TombstoneReason.DELETED) if previous.deleted else TombstoneReason.MOVED
    return move_document(previous.id, previous.company, company, reason, state)


def move_for_update(previous: IndexRow, document: PendingDocument, known: Mapping[str, IndexRow]) -> PendingDocument:
    """Return the move that a document of another company causes; `known` may include the move that it replaces."""
    earlier = known.get(known_move_id(previous))
    version = document.version if earlier is None else max(document.version, earlier.version)
    return _move_from(previous, document.company, (version, document.content))


async def rebuild_moves(context: IndexerContext, moves: Iterable[Move], index: str) -> list[BulkWrite]:
    """Return the writes for the moves of a rebuild; `index` has the earlier moves that they must replace."""
    moved = list(moves)
    known = await look_up_rows(context, index, [known_move_id(previous) for previous, _ in moved]) if moved else {}
    return [_pending_move(previous, record, known.get(known_move_id(previous))) for previous, record in moved]


def _pending_move(previous: Known, record: IndexRow, known: IndexRow | None) -> BulkWrite:
    """Return the write of a move whose version replaces the known one, whatever the record's later states are."""
    version = max(record.version, 0) if known is None else max(record.version, known.stored_version + 1)
    document = _move_from(previous, record.company, (version, record.content))
    return BulkWrite(document.id, document.version, document.stamped_source(0, PENDING_MOVE))


async def redirect_moves(context: IndexerContext, index: str, sender: BulkSender) -> bool:
    """Update the pending moves of an index to the present company of their records.

    A replayed record may have moved again: then its move points to the new company, and the record becomes pending
    too, behind its moves. Returns whether anything was written; the index must be refreshed.
    """
    has_any = False
    async for page in move_pages(context, index, {"gte": PENDING}):
        has_any = True
        await write_all(sender, [_redirected_write(move, record.company) for move, record in page])
        unordered = [record.id for move, record in page if record.sequence <= move.sequence]
        documents = await fetch_documents(context, index, unordered)
        await write_all(sender, [restamped_write(document, 0, PENDING_REPUBLISHED) for document in documents])
    return has_any


def _redirected_write(move: IndexRow, company: str) -> BulkWrite:
    """Return the write that points a move to another company and keeps its pending position."""
    previous, identifier = split_document_id(move.id)
    state = max(move.version, 0), move.content
    document = move_document(
        identifier, previous, company, TombstoneReason(move.reason or TombstoneReason.MOVED), state
    )
    return BulkWrite(document.id, move.stored_version, document.stamped_source(0, move.sequence))


async def move_pages(
    context: IndexerContext, index: str, sequences: Mapping[str, int]
) -> AsyncIterator[list[tuple[IndexRow, IndexRow]]]:
    query: dict[str, Any] = {"bool": {"filter": [{"term": {"deleted": True}}, {"range": {"sequence": sequences}}]}}
    async for page in scan_rows(context, index, query=query):
        owners = {row.id: split_document_id(row.id)[1] for row in page if is_move(row.id)}
        known = await look_up_rows(context, index, sorted({*owners.values()})) if owners else {}
        if pairs := [(row, known[owners[row.id]]) for row in page if owners.get(row.id) in known]:
            yield pairs
