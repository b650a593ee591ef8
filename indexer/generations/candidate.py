"""A candidate: what is written to it beyond the source, and its swap with the generation that is live.

Updates since its build began are replayed into it. Records that the source lacks become tombstones or are carried over.

The candidate of a rebuild of some companies has the documents of these only. Elasticsearch copies the live generation
(`copy_live`), and the documents of the candidate that differ are written into the copy, which takes the candidate's
place: documents of other companies keep their bytes, versions and stamps.

Before a swap each candidate is brought up to date and stamped. Then all aliases move in one request.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

from cluster.control_index import Mark
from indexer.bulk import AdaptiveLimit, BulkOptions, BulkSender, BulkWrite
from indexer.changes.replay import ReplayOrigin, assign_pending_stamps, replay, reset_stale_stamps
from indexer.changes.rewrites import Move, copy_write, fetch_copies, rebuild_moves, write_all, write_over
from indexer.changes.stamps import PENDING_VANISHED, is_expired_tombstone, is_taken
from indexer.changes.write_session import WriteSession, first_generation_mark, open_write_session
from indexer.clock import UNDATED, VERSIONS_PER_MICROSECOND, ClockWatch, now_milliseconds, version_microseconds
from indexer.control import MarkStore, RunRecord, read_identity, record_last_run
from indexer.documents.builder import tombstone_document
from indexer.documents.companies import ALL_COMPANIES
from indexer.errors import LockedError, ObjectionError, RefusedError
from indexer.generations.checkpoint import BuildCheckpoint, BuildJob, BuildPhase, BuildProgress
from indexer.generations.lifecycle import (
    DELETED_QUERY,
    LIVE_QUERY,
    AliasMove,
    GenerationLifecycle,
    Generations,
    copy_live,
    read_seq_nos,
    shard_numbers,
    stored_seq_nos,
)
from indexer.lock import DistributedLock, builder_fence
from indexer.reporting.report import RunStage
from indexer.scan import IndexRow, fetch_documents, look_up_rows, scan_rows
from indexer.settings import IndexerContext
from mappings import Resource
from mappings.stored_document import TombstoneReason


@dataclass(frozen=True)
class Candidate:
    """A candidate, the progress of its build, and the `fence` through which the holder of `lock` writes to it."""

    context: IndexerContext
    job: BuildJob
    lock: DistributedLock
    limit: AdaptiveLimit
    lifecycle: GenerationLifecycle
    checkpoint: BuildCheckpoint
    progress: BuildProgress
    fence: str

    @property
    def index(self) -> str:
        """The name of the generation."""
        return self.progress.candidate

    async def sender(self, *, replaces_equal: bool = True, index: str | None = None) -> BulkSender:
        """Return a sender that writes only while the fence exists; `replaces_equal` is for equal versions.

        `index` is what is behind the fence, by default the candidate.
        """
        ranges = await self.lifecycle.ranges(index or self.index)
        options = BulkOptions(replaces_equal, require_alias=True, opaque_id=self.lock.opaque_id, ranges=ranges)
        return BulkSender(self.context.client, self.fence, self.limit, self.context.settings, options)

    async def catch_up(self, live: str) -> None:
        """Replay the updates of the live generation since the last replay; later ones are left to the next."""
        reached = await self.context.cluster.refresh_to_seq_nos(live)
        is_grafted = self.progress.phase is BuildPhase.GRAFTED
        companies = ALL_COMPANIES if is_grafted else self.progress.own
        origin = ReplayOrigin(live, read_seq_nos(self.progress.follows), companies)
        covered, sender = self.job.companies.coverage, await self.sender()
        await replay(self.context, self.job.resource, origin, sender, self.index, covered=covered)
        self.progress.follows = stored_seq_nos(reached)

    @asynccontextmanager
    async def recorded_refusal(self) -> AsyncIterator[None]:
        """Report a refusal and record it in the checkpoint, so that only a forced run resumes, and raise it."""
        try:
            yield
        except RefusedError as refusal:
            self.job.report.refusal = self.progress.refusal = str(refusal)
            self.progress.is_overridable = isinstance(refusal, ObjectionError)
            await self.checkpoint.write(self.progress)
            raise

    async def finish(self) -> None:
        """Merge the generation and give it its live settings, or graft it into a copy of the live one."""
        self.job.enter_stage(RunStage.FINISHING)
        if not self.progress.others or self.progress.live is None:
            await self.lifecycle.finish(self.index)
        elif self.progress.phase is BuildPhase.PASSED:
            async with self.recorded_refusal():
                await Graft(self).run(self.progress.live)

    async def conclude(self) -> None:
        """Record the run after the swap, and delete what it leaves behind, if no other run has taken over since."""
        report, alias = self.job.report, self.lifecycle.alias
        newest = self.progress.newest
        done = RunRecord("reindex", now_milliseconds(), newest, report.read, report.dead, report.dead_letters)
        await record_last_run(self.context, alias, done)
        with suppress(LockedError):  # what is there may be of the other run
            await self.lock.verify()
            await self.checkpoint.clear()
            await self.lifecycle.prune(await self.lifecycle.generations())


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


async def count_others(job: BuildJob, lifecycle: GenerationLifecycle, live: str | None) -> int:
    """Return how many live records belong to companies that the build does not cover."""
    coverage = job.companies.coverage
    if live is None or coverage.companies is None:
        return 0
    await lifecycle.refresh(live)
    return await lifecycle.count(live, coverage.others_query)


def require_same_schema(job: BuildJob, lifecycle: GenerationLifecycle, present: Generations, others: int) -> None:
    """Raise RefusedError if the live index has another schema, and records of other companies, which must be copied."""
    if others and present.live and present.fingerprint(present.live) != lifecycle.fingerprint:
        raise RefusedError(
            f"{present.live} has a different schema than this program declares, and {others:,} records of companies "
            f"that this run does not cover ({job.companies.coverage}): load all companies together, with "
            "--all-companies. Nothing was swapped."
        )


@dataclass(frozen=True)
class Graft:
    """The exchange of a candidate that has some companies for a copy of the live generation with their changes."""

    candidate: Candidate

    async def run(self, live: str) -> None:
        """Make the copy, write what differs into it, and make it the candidate. A killed run makes another copy."""
        candidate, progress, lifecycle = self.candidate, self.candidate.progress, self.candidate.lifecycle
        built = progress.candidate
        if progress.copy is not None:
            await lifecycle.delete_candidate(progress.copy)
        copy = lifecycle.next_name(await lifecycle.generations(), built)
        progress.copy = copy
        await candidate.checkpoint.write(progress)
        await self._copy_live(live, copy)
        # From now on this run writes into the copy only.
        await builder_fence(candidate.context, lifecycle.alias, candidate.lock, copy)
        sender = await candidate.sender(index=copy)
        async for page in scan_rows(candidate.context, built):
            await self._write_differences(copy, page, sender)
        await lifecycle.finish(copy, merges=False)
        progress.candidate, progress.copy, progress.phase = copy, built, BuildPhase.GRAFTED
        candidate.job.report.generation = copy
        await candidate.checkpoint.write(progress)

    async def _copy_live(self, live: str, copy: str) -> None:
        """Copy the live generation while no update can write; the candidate has every update before."""
        candidate, context, job = self.candidate, self.candidate.context, self.candidate.job
        await candidate.catch_up(live)
        async with open_write_session(context, job.resource, job.report_wait) as session:
            if session.live != live:
                raise RefusedError(f"{live} is no longer live: {candidate.index} was not swapped in.")
            await candidate.catch_up(live)
            await copy_live(context, job.resource, candidate.lifecycle, live, copy)
        await candidate.lifecycle.refresh(candidate.index)

    async def _write_differences(self, copy: str, page: list[IndexRow], sender: BulkSender) -> None:
        context, built, covered = self.candidate.context, self.candidate.index, self.candidate.job.companies.coverage
        known = await look_up_rows(context, copy, [row.id for row in page])
        changed = [row for row in page if _state(row) != _state(known.get(row.id))]
        differing = [row for row in changed if not is_taken(known.get(row.id), covered)]
        self._report_taken([row.id for row in changed if is_taken(known.get(row.id), covered)])
        documents = await fetch_documents(context, built, [row.id for row in differing])
        copies = [copy_write(self.candidate.job.resource, document, known.get(document.id)) for document in documents]
        left = [(known[row.id], row) for row in differing if row.id in known]
        moves: list[Move] = [(before, row) for before, row in left if not covered.includes(before.company)]
        await write_all(sender, await rebuild_moves(context, moves, copy))
        await write_over(sender, copies, known)

    def _report_taken(self, taken: list[str]) -> None:
        if taken:
            names = ", ".join(taken[:_MAX_NAMED])
            self.candidate.job.report.warnings.append(
                f"{len(taken):,} records were meanwhile updated for companies that this run does not cover, and stay "
                f"theirs: {names}"
            )


def _state(row: IndexRow | None) -> tuple[object, ...] | None:
    """Return what a document is equal by. The version that Elasticsearch compares with may differ."""
    if row is None:
        return None
    return row.feed_key, row.version, row.content, row.clock, row.sequence, row.deleted, row.reason


async def swap_together(candidates: Sequence[Candidate]) -> None:
    """Swap in all candidates, which have passed the gate, or none of them; then publish their marks.

    Updates of a resource wait from when its write session opens until the swap. The largest changes are stamped first,
    so that the other resources wait for them without a lock. Raises RefusedError, LockedError or ClockError.
    """
    async with AsyncExitStack() as stack:
        swaps = []
        for candidate in sorted(candidates, key=lambda each: -each.job.report.changes):
            swap = CandidateSwap(candidate)
            async with candidate.recorded_refusal():
                await swap.stage(stack)
            swaps.append(swap)
        await candidates[0].lock.verify()
        ready = [await swap.ready() for swap in swaps]
        first, *others = [each.move for each in ready]
        await swaps[0].candidate.lifecycle.swap(first.index, first.live, first.fences, together=others)
        for each in ready:
            with suppress(LockedError):  # another run has published a later mark since the swap
                await each.publish(each.mark)


class ReadySwap(NamedTuple):
    """The move of an alias, the mark to publish after it, and what publishes it."""

    move: AliasMove
    mark: Mark
    publish: Callable[[Mark], Awaitable[None]]


@dataclass
class CandidateSwap:
    """The swap of one candidate: staged under the write lock of its resource, which is held until the swap."""

    candidate: Candidate
    session: WriteSession | None = None  # None for a first generation

    async def stage(self, stack: AsyncExitStack) -> None:
        """Replay the latest updates and stamp what is new; the session is closed with `stack`."""
        job, live = self.candidate.job, self.candidate.progress.live
        job.enter_stage(RunStage.SWAPPING)
        if live is None:
            await self._count_live()
            return
        await self.candidate.catch_up(live)
        opened = open_write_session(self.candidate.context, job.resource, job.report_wait)
        self.session = await stack.enter_async_context(opened)
        if self.session.live != live:
            raise RefusedError(f"{live} is no longer live: {self.candidate.index} was not swapped in.")
        await self.candidate.catch_up(live)
        await self.candidate.lifecycle.refresh(self.candidate.index)
        await self.session.publish_forgotten(self.candidate.progress.forgotten)
        await self._stamp(self.session)
        await self._count_live(succeeds=self.session.identity)

    async def _stamp(self, session: WriteSession) -> None:
        """Stamp above the mark; stamps of an interrupted run are assigned again."""
        candidate, progress, context = self.candidate, self.candidate.progress, self.candidate.context
        sender = await candidate.sender()
        if progress.stamped_above is None:
            progress.stamped_above = session.stamps.sequence
            await candidate.checkpoint.write(progress)
        else:
            await reset_stale_stamps(context, candidate.index, session.live, sender, progress.stamped_above)
            await candidate.lifecycle.refresh(candidate.index)
        await assign_pending_stamps(context, candidate.index, session, sender)

    async def _count_live(self, succeeds: str = "") -> None:
        """Count the documents that go live, and record the `_seq_no` up to which all writes are the build's own.

        `succeeds` is the identity of the index that it replaces, which stays in the mark until the next publication.
        """
        index, report, lifecycle = self.candidate.index, self.candidate.job.report, self.candidate.lifecycle
        built_to = stored_seq_nos(await self.candidate.context.cluster.refresh_to_seq_nos(index))
        await lifecycle.update_meta(index, built_to=built_to, succeeds=succeeds)
        report.documents = await lifecycle.count(index, LIVE_QUERY)
        report.tombstones = await lifecycle.count(index, DELETED_QUERY)

    async def ready(self) -> ReadySwap:
        """Check the clocks, and return what remains to be done for the swap."""
        context, index, alias = self.candidate.context, self.candidate.index, self.candidate.lifecycle.alias
        fences, session = {self.candidate.fence: index}, self.session
        if session is None:
            clock, marks = ClockWatch(context), MarkStore(context, alias)
            await clock.check()
            mark = await first_generation_mark(marks, context, index, clock)
            return ReadySwap(AliasMove(alias, index, None, fences), mark, marks.publish)
        identity = await read_identity(context, index)
        await session.clock.check_if_set()
        move = AliasMove(alias, index, session.live, {session.fence: session.live, **fences})
        return ReadySwap(move, session.stamps.next_mark(index, identity), session.publish_mark)
