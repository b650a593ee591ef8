"""The rebuild of one resource: start or resume, load, reconcile, check, swap in."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from indexer.build.build_checkpoint import BuildCheckpoint, BuildPhase, BuildProgress
from indexer.build.duplicates import resolve_duplicates
from indexer.build.loader import CandidateLoader
from indexer.build.reconciliation import count_kept, reconcile, unreadable_records
from indexer.build.swap_gate import DocumentSample, SwapGate
from indexer.changes.replay import ReplayOrigin, assign_pending_stamps, replay, reset_stale_stamps
from indexer.changes.stamps import PENDING, PENDING_MOVE, PENDING_VANISHED
from indexer.changes.write_session import first_generation_mark, open_write_session
from indexer.clock import now_microseconds, now_milliseconds
from indexer.control.last_run import RunRecord, record_last_run
from indexer.control.lives import read_identity
from indexer.control.mark_store import MarkStore
from indexer.errors import LockedError, RefusedError
from indexer.indices.bulk import BulkOptions, BulkSender
from indexer.indices.cluster_clock import ClockWatch
from indexer.indices.lifecycle import DELETED_QUERY, LIVE_QUERY, GenerationLifecycle
from indexer.indices.scan import refresh_to_seq_no
from indexer.lock.fence import create_fence
from indexer.reporting.report import RunStage

if TYPE_CHECKING:
    from cluster.control_index import Mark
    from indexer.build.build_job import BuildJob
    from indexer.changes.write_session import WriteSession
    from indexer.context import IndexerContext
    from indexer.indices.adaptive_limit import AdaptiveLimit
    from indexer.indices.lifecycle import Generations
    from indexer.lock.distributed_lock import DistributedLock


class ResourceBuild:
    """Builds the candidate of one resource, from its creation to its swap."""

    def __init__(self, context: IndexerContext, job: BuildJob, lock: DistributedLock, limit: AdaptiveLimit) -> None:
        self._context = context
        self._job = job
        self._lock = lock
        self._limit = limit
        self._lifecycle = GenerationLifecycle(context, job.resource)
        self._checkpoint = BuildCheckpoint(context, self._lifecycle.alias)
        self._fence = ""
        self._sample = DocumentSample()
        self._gate = SwapGate(context, job, self._lifecycle, self._sample)

    async def run(self) -> None:
        """Build the next generation and swap it in.

        Until the swap, the live generation is unchanged. A refused candidate is kept for inspection; a build that ends
        for any other reason can resume.
        """
        progress = await self._start_or_resume()
        name = f"{self._lifecycle.alias}-builder"
        self._fence = await create_fence(self._context, name, self._lock.token, progress.candidate)
        report = self._job.report
        report.generation, report.previous = progress.candidate, progress.live
        try:
            await self._prepare(progress)
            await self._swap_in(progress)
        except RefusedError as refusal:
            progress.refusal = str(refusal)
            await self._checkpoint.write(progress)
            raise
        done = RunRecord("reindex", now_milliseconds(), progress.newest, report.read, report.dead, report.dead_letters)
        await record_last_run(self._context, self._lifecycle.alias, done)
        await self._checkpoint.clear()
        await self._lifecycle.prune(await self._lifecycle.generations())

    async def _start_or_resume(self) -> BuildProgress:
        """Return the interrupted build, or begin a new one and delete the remains of the old."""
        present, earlier = await self._lifecycle.generations(), await self._checkpoint.read()
        mark = await MarkStore(self._context, self._lifecycle.alias).read()
        if earlier is not None and earlier.candidate in present.metas and earlier.candidate != present.live:
            if self._can_resume(earlier, present, mark):
                self._resume(earlier)
                return earlier
            await self._lifecycle.delete_candidate(earlier.candidate)
        return await self._start(present, mark)

    def _can_resume(self, earlier: BuildProgress, present: Generations, mark: Mark | None) -> bool:
        current = present.live, self._job.source.identity(self._job.resource), self._lifecycle.fingerprint
        is_continued = not earlier.life or (mark is not None and mark.life == earlier.life)
        is_same = (earlier.live, earlier.source, earlier.fingerprint) == current
        return earlier.refusal is None and is_same and is_continued

    async def _start(self, present: Generations, mark: Mark | None) -> BuildProgress:
        follows = await refresh_to_seq_no(self._context, present.live) if present.live else -1
        candidate = await self._lifecycle.create(present, mark.generation if mark else None)
        source, resource = self._job.source, self._job.resource
        progress = BuildProgress(
            candidate,
            present.live,
            source.identity(resource),
            self._lifecycle.fingerprint,
            min(source.taken_at(resource), now_microseconds()),
            dead_letters=self._job.dead_letters.target_path,
            follows=follows,
            life=mark.life if mark else "",
        )
        await self._checkpoint.write(progress)
        return progress

    def _resume(self, progress: BuildProgress) -> None:
        report, dead_letters = self._job.report, self._job.dead_letters
        report.resumed_at = progress.line
        for name, count in progress.counts.items():
            setattr(report, name, count)
        unidentified = progress.bad if progress.unidentified is None else progress.unidentified
        dead_letters.resume(progress.dead_letters, progress.bad, progress.unreadable, unidentified)
        dead_letters.update_report(report)

    async def _prepare(self, progress: BuildProgress) -> None:
        if progress.phase is BuildPhase.LOADING:
            await self._load(progress)
        if progress.phase is BuildPhase.LOADED:
            await self._compare(progress)
        self._job.enter_stage(RunStage.FINISHING)
        await self._lifecycle.finish(progress.candidate)

    async def _load(self, progress: BuildProgress) -> None:
        job, report = self._job, self._job.report
        job.enter_stage(RunStage.READING)
        sender = self._sender(replaces_equal=False)
        loader = CandidateLoader(self._context, job, self._checkpoint, progress, sender, self._sample)
        await loader.load()
        job.enter_stage(RunStage.COMPARING)
        await self._lifecycle.refresh(progress.candidate)
        duplicates = await resolve_duplicates(self._context, progress.candidate, job, loader.repeated)
        copied = len(loader.copied - loader.repeated) + duplicates.copied
        job.dead_letters.update_report(report)
        progress.accepted = report.read - report.dead - duplicates.superseded
        await self._gate.check_loaded(progress.candidate, progress.accepted)
        is_pending = {"range": {"sequence": {"gte": PENDING}}}
        pending = await self._lifecycle.count(progress.candidate, is_pending) if progress.live else progress.accepted
        report.indexed = pending
        report.stale = duplicates.superseded + copied
        report.unchanged = progress.accepted - copied - pending
        progress.kept = await unreadable_records(self._context, progress.candidate, job.dead_letters.records)
        progress.phase = BuildPhase.LOADED
        await loader.save_checkpoint()

    async def _compare(self, progress: BuildProgress) -> None:
        job = self._job
        job.enter_stage(RunStage.COMPARING)
        # A retried request may arrive after the stamping: it must not replace what it finds.
        await reconcile(self._context, self._job.resource, progress, self._sender(replaces_equal=False))
        await self._lifecycle.refresh(progress.candidate)
        count, report = self._lifecycle.count, job.report
        report.vanished = await count(progress.candidate, {"range": {"sequence": {"gte": PENDING_VANISHED}}})
        known = progress.accepted + await count(progress.candidate, {"term": {"sequence": PENDING_MOVE}})
        report.kept = await count_kept(self._context, progress)
        report.carried = await count(progress.candidate) - known - report.vanished - report.kept
        if progress.live is not None:
            await self._catch_up(progress, progress.live)
            await self._lifecycle.refresh(progress.candidate)
        await self._gate.check_vanished(progress)
        await self._gate.check_bounds(progress.candidate, progress.live)
        progress.phase, progress.counts = BuildPhase.PASSED, report.resumable_counts
        await self._checkpoint.write(progress)

    async def _catch_up(self, progress: BuildProgress, live: str) -> None:
        """Replay the updates of the live generation since the last replay; later ones are left to the next."""
        reached = await refresh_to_seq_no(self._context, live)
        origin = ReplayOrigin(live, progress.follows)
        await replay(self._context, self._job.resource, origin, self._sender(), progress.candidate)
        progress.follows = reached

    def _sender(self, *, replaces_equal: bool = True) -> BulkSender:
        options = BulkOptions(replaces_equal=replaces_equal, require_alias=True, opaque_id=self._lock.opaque_id)
        return BulkSender(self._context.client, self._fence, self._limit, self._context.settings, options)

    async def _swap_in(self, progress: BuildProgress) -> None:
        """Replay the latest updates, stamp what is new, swap the alias, then publish the mark."""
        self._job.enter_stage(RunStage.SWAPPING)
        if progress.live is None:
            await self._swap_in_first(progress)
            return
        await self._catch_up(progress, progress.live)
        sender = self._sender()
        async with open_write_session(self._context, self._job.resource, self._job.report_wait) as session:
            if session.live != progress.live:
                raise RefusedError(f"{progress.live} is no longer live: {progress.candidate} was not swapped in.")
            await self._catch_up(progress, progress.live)
            await self._lifecycle.refresh(progress.candidate)
            await session.publish_forgotten(progress.forgotten)
            await self._stamp(progress, session, sender)
            await self._count_live(progress, succeeds=session.identity)
            await self._lock.verify()
            identity = await read_identity(self._context, progress.candidate)
            await session.clock.check_if_set()
            mark, fences = session.stamps.next_mark(progress.candidate, identity), {self._fence: progress.candidate}
            await self._lifecycle.swap(progress.candidate, progress.live, {session.fence: progress.live, **fences})
            with suppress(LockedError):  # another run has taken over since the swap, and published a later mark
                await session.publish_mark(mark)

    async def _stamp(self, progress: BuildProgress, session: WriteSession, sender: BulkSender) -> None:
        """Stamp above the mark; stamps of an interrupted run are assigned again."""
        if progress.stamped_above is None:
            progress.stamped_above = session.stamps.sequence
            await self._checkpoint.write(progress)
        else:
            await reset_stale_stamps(self._context, progress.candidate, session.live, sender, progress.stamped_above)
            await self._lifecycle.refresh(progress.candidate)
        await assign_pending_stamps(self._context, progress.candidate, session, sender)

    async def _count_live(self, progress: BuildProgress, succeeds: str = "") -> None:
        """Count the documents that go live, and record the `_seq_no` up to which all writes are the build's own.

        `succeeds` is the identity of the index that it replaces, which stays in the mark until the next publication.
        """
        candidate, report = progress.candidate, self._job.report
        built_to = await refresh_to_seq_no(self._context, candidate)
        await self._lifecycle.update_meta(candidate, built_to=built_to, succeeds=succeeds)
        report.documents = await self._lifecycle.count(candidate, LIVE_QUERY)
        report.tombstones = await self._lifecycle.count(candidate, DELETED_QUERY)

    async def _swap_in_first(self, progress: BuildProgress) -> None:
        """Swap in the first generation of a resource."""
        await self._count_live(progress)
        await self._lock.verify()
        clock, mark_store = ClockWatch(self._context), MarkStore(self._context, self._lifecycle.alias)
        await clock.check()
        mark = await first_generation_mark(mark_store, self._context, progress.candidate, clock)
        await self._lifecycle.swap(progress.candidate, None, {self._fence: progress.candidate})
        with suppress(LockedError):  # an update has published a later mark since the swap
            await mark_store.publish(mark)
