"""What the live generation has beyond the source: records that the source lacks, and those of other companies.

Records that the source lacks become tombstones in the candidate or are carried over. The candidate of a rebuild of some
companies has the documents of these only. Elasticsearch copies the live generation (`copy_live`), and the documents of
the candidate that differ are written into the copy, which takes the candidate's place.
"""

from collections.abc import AsyncIterator

from cluster.terminal import counted
from indexer.bulk import BulkWrite
from indexer.changes.rewrites import Move, copy_write, fetch_copies, rebuild_moves, write_all, write_over
from indexer.changes.stamps import PENDING_MOVE, PENDING_VANISHED, is_expired_tombstone, is_taken
from indexer.changes.write_session import open_write_session
from indexer.clock import UNDATED, VERSIONS_PER_MICROSECOND, version_microseconds
from indexer.documents.builder import tombstone_document
from indexer.errors import RefusedError
from indexer.generations.candidate import Candidate
from indexer.generations.checkpoint import BuildPhase, BuildProgress
from indexer.generations.lifecycle import copy_live, read_seq_nos, shard_numbers
from indexer.lock import builder_fence
from indexer.reporting.report import RunStage
from indexer.scan import IndexRow, fetch_documents, look_up_rows, scan_rows
from indexer.settings import IndexerContext
from mappings.stored_document import TombstoneReason

_BATCH_RECORDS = 500


async def compare(candidate: Candidate, live: str) -> None:
    """Bring a loaded candidate to the state of its source: with tombstones, moves and updates since the build began."""
    progress, report, count = candidate.progress, candidate.job.report, candidate.lifecycle.count
    index = progress.candidate
    if progress.phase is not BuildPhase.LOADED:
        return
    candidate.job.enter_stage(RunStage.COMPARING)
    await reconcile(candidate, live)
    await candidate.lifecycle.refresh(index)
    report.vanished = await count(index, {"range": {"sequence": {"gte": PENDING_VANISHED}}})
    known = progress.accepted + await count(index, {"term": {"sequence": PENDING_MOVE}})
    kept = await look_up_rows(candidate.context, index, progress.kept)
    report.kept = sum(not row.deleted for row in kept.values())
    report.carried = await count(index) - known - report.vanished - report.kept
    await candidate.catch_up(live)
    await candidate.lifecycle.refresh(index)


async def reconcile(candidate: Candidate, live: str) -> None:
    """Write into the candidate what the live generation has beyond the source, of the companies that it is for.

    A record is carried over if it is newer than the source, or if its line in the source is unreadable, and becomes a
    tombstone otherwise. One that the source has under another company gets a move tombstone. Records that changed since
    the build began are left to the replay.
    """
    context, resource, progress = candidate.context, candidate.job.resource, candidate.progress
    # A retried request may arrive after the stamping: it must not replace what it finds.
    sender, kept = candidate.sender(replaces_equal=False), frozenset(progress.kept)
    async for missing, moves in _missing_and_moved(context, live, progress):
        absent = [row for row in missing if not row.deleted and row.id not in kept]
        vanished = [row for row in absent if version_microseconds(row.version) <= progress.taken_at]
        # Of a copy of the live generation, only pruning deletes documents.
        expired = [row for row in missing if is_expired_tombstone(context, row) and not progress.others]
        progress.forgotten = max([progress.forgotten, *(row.sequence for row in expired)])
        dropped = {row.id for row in [*vanished, *expired]}
        newer = [row.id for row in missing if row.id not in dropped]
        carried = await fetch_copies(context, resource, live, newer)
        move_writes = await rebuild_moves(context, moves, live)
        vanished_writes = [_vanished_write(row, progress.taken_at) for row in vanished]
        await write_all(sender, [*carried, *move_writes, *vanished_writes])


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
            yield await _classify_unmatched(context, progress.candidate, unmatched)
            unmatched = []
    if unmatched:
        yield await _classify_unmatched(context, progress.candidate, unmatched)


async def _classify_unmatched(
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


_MAX_NAMED = 10


async def exchange_for_copy(candidate: Candidate, live: str) -> None:
    """Let a copy of the live generation with the candidate's documents take its place. A killed run makes another copy.

    Documents of companies that the build does not cover keep their bytes, versions and stamps.
    """
    progress, lifecycle, built = candidate.progress, candidate.lifecycle, candidate.progress.candidate
    if progress.copy is not None:
        await lifecycle.delete_candidate(progress.copy)
    copy = lifecycle.next_name(await lifecycle.generations(), built)
    progress.copy = copy
    await candidate.checkpoint.write(progress)
    await _copy_live(candidate, live, copy)
    # From now on this run writes into the copy only.
    await builder_fence(candidate.context, lifecycle.alias, candidate.lock, copy)
    async for page in scan_rows(candidate.context, built):
        await _write_differences(candidate, copy, page)
    await lifecycle.finish(copy, merges=False)
    progress.candidate, progress.copy, progress.phase = copy, built, BuildPhase.COPIED
    candidate.job.report.generation = copy
    await candidate.checkpoint.write(progress)


async def _copy_live(candidate: Candidate, live: str, copy: str) -> None:
    """Copy the live generation while no update can write; the candidate has every update before."""
    context, job = candidate.context, candidate.job
    await candidate.catch_up(live)
    async with open_write_session(context, job.resource, job.report_wait) as session:
        if session.live != live:
            raise RefusedError(f"{live} is no longer live: {candidate.index} did not go live.")
        await candidate.catch_up(live)
        await copy_live(context, job.resource, candidate.lifecycle, live, copy)
    await candidate.lifecycle.refresh(candidate.index)


async def _write_differences(candidate: Candidate, copy: str, page: list[IndexRow]) -> None:
    context, job, covered = candidate.context, candidate.job, candidate.job.companies.coverage
    known, sender = await look_up_rows(context, copy, [row.id for row in page]), candidate.sender()
    changed = [row for row in page if _state(row) != _state(known.get(row.id))]
    differing = [row for row in changed if not is_taken(known.get(row.id), covered)]
    if taken := [row.id for row in changed if is_taken(known.get(row.id), covered)]:
        names = ", ".join(taken[:_MAX_NAMED])
        job.report.warnings.append(
            f"left as they are: {counted(len(taken), 'record')}, which updates have moved in the meantime to companies "
            f"that this run does not cover: {names}"
        )
    documents = await fetch_documents(context, candidate.index, [row.id for row in differing])
    copies = [copy_write(job.resource, document, known.get(document.id)) for document in documents]
    left = [(known[row.id], row) for row in differing if row.id in known]
    moves: list[Move] = [(before, row) for before, row in left if not covered.includes(before.company)]
    await write_all(sender, await rebuild_moves(context, moves, copy))
    await write_over(sender, copies, known)


def _state(row: IndexRow | None) -> tuple[object, ...] | None:
    """Return what a document is equal by. The version that Elasticsearch compares with may differ."""
    if row is None:
        return None
    return row.feed_key, row.version, row.content, row.clock, row.sequence, row.deleted, row.reason
