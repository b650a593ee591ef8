"""Reconciliation with the live generation: records that the source lacks become tombstones or are carried over."""

from collections.abc import AsyncIterator

from indexer.build.build_checkpoint import BuildProgress
from indexer.changes.document_copies import fetch_copies, write_all
from indexer.changes.moves import Move, rebuild_moves
from indexer.changes.retention import is_expired_tombstone
from indexer.changes.stamps import PENDING_VANISHED
from indexer.clock import UNDATED, VERSIONS_PER_MICROSECOND, version_microseconds
from indexer.context import IndexerContext
from indexer.documents.builder import tombstone_document
from indexer.indices.bulk import BulkSender, BulkWrite
from indexer.indices.scan import IndexRow, look_up_rows, scan_rows
from indexer.indices.seq_nos import read_seq_nos, shard_numbers
from mappings import Resource
from mappings.stored_document import TombstoneReason

_BATCH_RECORDS = 500


async def reconcile(context: IndexerContext, resource: Resource, progress: BuildProgress, sender: BulkSender) -> None:
    """Write into the candidate what the live generation has beyond the source, of the companies that it is for.

    A record is carried over if it is newer than the source, or if its line in the source is unreadable, and becomes a
    tombstone otherwise. One that the source has under another company gets a move tombstone. Records that changed since
    the build began are left to the replay.
    """
    if progress.live is None:
        return
    kept = frozenset(progress.kept)
    async for missing, moves in _missing_and_moved(context, progress.live, progress):
        absent = [row for row in missing if not row.deleted and row.id not in kept]
        vanished = [row for row in absent if version_microseconds(row.version) <= progress.taken_at]
        # Of a copy of the live generation, only pruning deletes documents.
        expired = [row for row in missing if is_expired_tombstone(context, row) and not progress.others]
        progress.forgotten = max([progress.forgotten, *(row.sequence for row in expired)])
        dropped = {row.id for row in [*vanished, *expired]}
        newer = [row.id for row in missing if row.id not in dropped]
        carried = await fetch_copies(context, resource, progress.live, newer)
        move_writes = await rebuild_moves(context, moves, progress.live)
        vanished_writes = [_vanished_write(row, progress.taken_at) for row in vanished]
        await write_all(sender, [*carried, *move_writes, *vanished_writes])


async def unreadable_records(context: IndexerContext, candidate: str, identifiers: set[str]) -> list[str]:
    """Return those of some records that no valid line of the source has, once the candidate is loaded."""
    return sorted(identifiers - (await look_up_rows(context, candidate, sorted(identifiers))).keys())


async def count_kept(context: IndexerContext, progress: BuildProgress) -> int:
    """Return how many live records stay because their lines are unreadable."""
    rows = await look_up_rows(context, progress.candidate, progress.kept)
    return sum(not row.deleted for row in rows.values())


def _vanished_write(row: IndexRow, taken_at: int) -> BulkWrite:
    """Return the tombstone of a record that the source lacks, written under a version just below those of its moment.

    Of an undated record, the time of the source counts. All of them share one pending position and are stamped in the
    order of their feed keys, whichever run wrote them.
    """
    deleted_at = taken_at if row.version == UNDATED else version_microseconds(row.version)
    document = tombstone_document(row.id, row.company, deleted_at, TombstoneReason.VANISHED)
    version = max(0, deleted_at * VERSIONS_PER_MICROSECOND - 1)
    return BulkWrite(document.id, version, document.stamped_source(0, PENDING_VANISHED), document)


async def _missing_and_moved(
    context: IndexerContext, live: str, progress: BuildProgress
) -> AsyncIterator[tuple[list[IndexRow], list[Move]]]:
    """Yield the live rows that the candidate lacks, and those that it has under another company, in batches.

    The live generation is read as it was when the build began.
    """
    unmatched: list[IndexRow] = []
    async for row in _unmatched(context, live, progress):
        unmatched.append(row)
        if len(unmatched) >= _BATCH_RECORDS:
            yield await _classify(context, progress.candidate, unmatched)
            unmatched = []
    if unmatched:
        yield await _classify(context, progress.candidate, unmatched)


async def _classify(
    context: IndexerContext, candidate: str, unmatched: list[IndexRow]
) -> tuple[list[IndexRow], list[Move]]:
    rows = await look_up_rows(context, candidate, [row.id for row in unmatched])
    missing = [row for row in unmatched if row.id not in rows]
    moves: list[Move] = [
        (row, rows[row.id]) for row in unmatched if row.id in rows and rows[row.id].company != row.company
    ]
    return missing, moves


async def _unmatched(context: IndexerContext, live: str, progress: BuildProgress) -> AsyncIterator[IndexRow]:
    """Merge both generations in the order of their feed keys and yield the live rows without a counterpart."""
    partners = _rows(context, progress.candidate)
    partner = await anext(partners, None)
    async for row in _rows_at_start(context, live, progress):
        while partner is not None and partner.feed_key < row.feed_key:
            partner = await anext(partners, None)
        if partner is None or partner.feed_key != row.feed_key:
            yield row


async def _rows_at_start(context: IndexerContext, live: str, progress: BuildProgress) -> AsyncIterator[IndexRow]:
    """Yield the rows of the live generation as it was when the build began, in the order of the feed keys.

    A `_seq_no` counts within a shard, and the shards have their feed keys in order.
    """
    follows = read_seq_nos(progress.follows)
    for number, shard in zip(follows, shard_numbers(follows), strict=True):
        query = {"bool": {"filter": [{"range": {"_seq_no": {"lte": number}}}, progress.own.query]}}
        async for page in scan_rows(context, live, query=query, shard=shard):
            for row in page:
                yield row


async def _rows(context: IndexerContext, index: str) -> AsyncIterator[IndexRow]:
    async for page in scan_rows(context, index):
        for row in page:
            yield row
