"""The build of one resource: start or resume, load, reconcile, check."""

import asyncio

from cluster.control_index import Mark
from indexer.build.build_checkpoint import BuildCheckpoint, BuildPhase, BuildProgress
from indexer.build.build_job import BuildJob
from indexer.build.candidate import Candidate
from indexer.build.chunk_writer import ChunkWriter
from indexer.build.duplicates import resolve_duplicates
from indexer.build.graft import count_others, require_same_schema
from indexer.build.line_load import load_lines
from indexer.build.loader import CandidateLoader
from indexer.build.parallel.loader_pool import LoaderPool
from indexer.build.reconciliation import count_kept, reconcile, unreadable_records
from indexer.build.shard_cuts import choose_ranges
from indexer.build.shard_duplicates import remove_shard_duplicates
from indexer.build.swap_gate import DocumentSample, SwapGate
from indexer.changes.stamps import PENDING, PENDING_MOVE, PENDING_VANISHED
from indexer.clock import now_microseconds
from indexer.context import IndexerContext
from indexer.control.mark_store import MarkStore
from indexer.documents.builder import PendingDocument
from indexer.documents.line_parser import ParsedChunk
from indexer.errors import ObjectionError, RefusedError
from indexer.indices.adaptive_limit import AdaptiveLimit
from indexer.indices.lifecycle import GenerationLifecycle, Generations
from indexer.indices.refreshes import refresh_to_seq_nos
from indexer.indices.seq_nos import stored_seq_nos
from indexer.indices.shard_statistics import has_all_shards
from indexer.lock.distributed_lock import DistributedLock
from indexer.lock.fence import builder_fence
from indexer.reporting.report import RunStage
from mappings.shards.ranges import ShardRanges


class ResourceBuild:
    """Builds the candidate of one resource, from its creation to the gate."""

    def __init__(
        self, context: IndexerContext, job: BuildJob, lock: DistributedLock, pool: LoaderPool, limit: AdaptiveLimit
    ) -> None:
        """With a pool of several processes, these load the lines."""
        self._context = context
        self._job = job
        self._lock = lock
        self._pool = pool
        self._limit = limit
        self._lifecycle = GenerationLifecycle(context, job.resource)
        self._checkpoint = BuildCheckpoint(context, self._lifecycle.alias)
        self._sample = DocumentSample()
        self._gate = SwapGate(context, job, self._lifecycle, self._sample)

    async def prepare(self) -> Candidate:
        """Build the next generation and check it; the live one is unchanged.

        A refused candidate is kept; a build that ends for any other reason can resume.
        """
        progress = await self._start_or_resume()
        fence = await builder_fence(self._context, self._lifecycle.alias, self._lock, progress.candidate)
        job, shared = self._job, (self._lifecycle, self._checkpoint)
        candidate = Candidate(self._context, job, self._lock, self._limit, *shared, progress, fence)
        job.report.generation, job.report.previous = progress.candidate, progress.live
        job.report.covers, job.report.others = str(job.companies.coverage), progress.others
        async with candidate.recorded_refusal():
            for objection in progress.overridden:
                job.refuse_unless_forced(objection)
            if progress.phase is BuildPhase.LOADING:
                await self._load(candidate)
            if progress.phase is BuildPhase.LOADED:
                await self._compare(candidate)
        job.enter_stage(RunStage.BUILT)
        return candidate

    async def _start_or_resume(self) -> BuildProgress:
        """Return the interrupted build, or begin a new one and delete the remains of the old."""
        present, earlier = await self._lifecycle.generations(), await self._checkpoint.read()
        mark = await MarkStore(self._context, self._lifecycle.alias).read()
        if earlier is not None and earlier.candidate in present.metas and earlier.candidate != present.live:
            obstacle = self._obstacle(earlier, present, mark)
            is_lost = obstacle is None and not await has_all_shards(self._context, earlier.candidate)
            if obstacle is None and not is_lost:
                self._job.resume(earlier)
                return earlier
            if is_lost:
                sentence = f"{earlier.candidate} is built again from the beginning: a shard of it is on no node"
                self._job.report.warnings.append(sentence)
            elif earlier.refusal and self._job.is_forced:
                sentence = f"{earlier.candidate} was refused and is not taken but built again: {obstacle}"
                self._job.report.warnings.append(sentence)
            for index in filter(None, [earlier.candidate, earlier.copy]):
                await self._lifecycle.delete_candidate(index)
        return await self._start(present, mark)

    def _obstacle(self, earlier: BuildProgress, present: Generations, mark: Mark | None) -> str | None:
        """Return why an earlier build cannot resume, None if it can."""
        if earlier.refusal is not None and not (earlier.is_overridable and self._job.is_forced):
            return "its refusal cannot be overridden"
        is_continued = not earlier.life or (mark is not None and mark.life == earlier.life)
        is_known = earlier.companies in {"", self._job.companies_fingerprint}
        conditions = {
            "the source has changed since": earlier.source == self._job.source.identity(self._job.resource),
            "another generation is live since": earlier.live == present.live and is_continued,
            "this program declares another schema": earlier.fingerprint == self._lifecycle.fingerprint,
            "the known companies have changed since": is_known,
            "it covers other companies": earlier.covered == self._job.covered,
        }
        return next((obstacle for obstacle, is_met in conditions.items() if not is_met), None)

    async def _start(self, present: Generations, mark: Mark | None) -> BuildProgress:
        follows = await refresh_to_seq_nos(self._context, present.live) if present.live else [-1]
        others = await count_others(self._job, self._lifecycle, present.live)
        require_same_schema(self._job, self._lifecycle, present, others)
        ranges = await self._ranges(present, others)
        candidate = await self._lifecycle.create(present, mark.generation if mark else None, ranges)
        source, resource = self._job.source, self._job.resource
        progress = BuildProgress(
            candidate,
            present.live,
            source.identity(resource),
            self._lifecycle.fingerprint,
            min(source.taken_at(resource), now_microseconds()),
            dead_letters=self._job.dead_letters.target_path,
            follows=stored_seq_nos(follows),
            life=mark.life if mark else "",
            companies=self._job.companies_fingerprint,
            covered=self._job.covered,
            others=others,
        )
        await self._checkpoint.write(progress)
        return progress

    async def _ranges(self, present: Generations, others: int) -> ShardRanges:
        """Return the ranges of the candidate: if a copy of the live index is to take its place, those that it has."""
        if others and present.live:
            return present.ranges(present.live)
        return await asyncio.to_thread(choose_ranges, self._job, self._context.shards, self._context.settings)

    async def _load(self, candidate: Candidate) -> None:
        job, report, progress = self._job, self._job.report, candidate.progress
        job.enter_stage(RunStage.READING)
        sender = await candidate.sender(replaces_equal=False)
        loader = CandidateLoader(job, self._checkpoint, progress)
        try:
            await load_lines(self._context, loader, sender, self._sample, self._pool)
        except ObjectionError as objection:
            await self._checkpoint.read()  # the version of a write that was cancelled
            if not await loader.save_checkpoint():
                raise RefusedError(str(objection)) from None
            raise
        job.enter_stage(RunStage.COMPARING)
        await self._lifecycle.refresh(progress.candidate)
        loader.repeated |= await remove_shard_duplicates(self._context, self._lifecycle, progress.candidate, sender)
        duplicates = await resolve_duplicates(self._context, progress.candidate, job, loader.repeated)
        await self._write_winners(candidate, duplicates.winners)
        copied = len(loader.copied - loader.repeated) + duplicates.copied
        job.dead_letters.update_report(report)
        progress.accepted = report.read - report.dead - duplicates.superseded
        await self._gate.check_loaded(progress.candidate, progress.accepted, duplicates.tied)
        is_pending = {"range": {"sequence": {"gte": PENDING}}}
        pending = await self._lifecycle.count(progress.candidate, is_pending) if progress.live else progress.accepted
        report.indexed = pending
        report.merged, report.stale = duplicates.superseded, copied
        report.warnings += duplicates.warnings
        report.unchanged = progress.accepted - copied - pending
        progress.kept = await unreadable_records(self._context, progress.candidate, job.dead_letters.records)
        progress.phase = BuildPhase.LOADED
        progress.warnings = list(report.warnings)
        await loader.save_checkpoint()

    async def _write_winners(self, candidate: Candidate, winners: tuple[PendingDocument, ...]) -> None:
        """Write documents over others of the same version."""
        if not winners:
            return
        job, progress = self._job, candidate.progress
        known = (job.resource, progress.live, job.companies.coverage)
        writer = ChunkWriter(self._context, *known, await candidate.sender(), self._sample)
        await writer.write(ParsedChunk(drafts=list(winners)))
        await self._lifecycle.refresh(progress.candidate)

    async def _compare(self, candidate: Candidate) -> None:
        job, progress = self._job, candidate.progress
        job.enter_stage(RunStage.COMPARING)
        # A retried request may arrive after the stamping: it must not replace what it finds.
        sender = await candidate.sender(replaces_equal=False)
        await reconcile(self._context, self._job.resource, progress, sender)
        await self._lifecycle.refresh(progress.candidate)
        count, report = self._lifecycle.count, job.report
        report.vanished = await count(progress.candidate, {"range": {"sequence": {"gte": PENDING_VANISHED}}})
        known = progress.accepted + await count(progress.candidate, {"term": {"sequence": PENDING_MOVE}})
        report.kept = await count_kept(self._context, progress)
        report.carried = await count(progress.candidate) - known - report.vanished - report.kept
        if progress.live is not None:
            await candidate.catch_up(progress.live)
            await self._lifecycle.refresh(progress.candidate)
        await self._gate.check_vanished(progress)
        await self._gate.check_bounds(progress.candidate, progress.live)
        progress.phase, progress.counts = BuildPhase.PASSED, report.resumable_counts
        progress.overridden, progress.warnings = list(report.overridden), list(report.warnings)
        progress.vanished_companies = report.vanished_companies
        await self._checkpoint.write(progress)
