"""Full rebuilds: the resources of a source are built and checked, then swapped in together, one run at a time.

The build of a resource starts or resumes, loads, reconciles and checks.
"""

import asyncio
import time
from collections.abc import Collection
from contextlib import closing, suppress
from dataclasses import dataclass, field

from cluster.control_index import Mark
from indexer.bulk import AdaptiveLimit
from indexer.changes.new_lives import begin_due_lives
from indexer.changes.stamps import PENDING, PENDING_MOVE, PENDING_VANISHED
from indexer.clock import ClockWatch, now_microseconds
from indexer.control import MarkStore, publish_events
from indexer.documents.builder import PendingDocument
from indexer.documents.companies import BY_SOURCE, Companies, Coverage, CoverageRequest, known_companies
from indexer.documents.line_parser import ParsedChunk
from indexer.errors import ObjectionError, RefusedError, SourceError, translate_client_errors
from indexer.generations.candidate import (
    Candidate,
    count_kept,
    count_others,
    reconcile,
    require_same_schema,
    swap_together,
    unreadable_records,
)
from indexer.generations.checkpoint import BuildCheckpoint, BuildJob, BuildPhase, BuildProgress
from indexer.generations.gates import DocumentSample, SwapGate, check_references
from indexer.generations.lifecycle import (
    GenerationLifecycle,
    Generations,
    has_all_shards,
    stored_seq_nos,
)
from indexer.generations.preflight import preflight
from indexer.load.chunk_writer import ChunkWriter
from indexer.load.duplicates import resolve_duplicates
from indexer.load.loader import CandidateLoader, load_lines
from indexer.load.processes import LoaderPool
from indexer.load.shards import choose_ranges, remove_shard_duplicates
from indexer.lock import DistributedLock, acquire_lock, builder_fence
from indexer.reporting.dead_letters import DeadLetters, check_folder
from indexer.reporting.report import OnProgress, ResourceReport, RunStage, RunSummary, ignore_progress
from indexer.settings import IndexerContext
from indexer.source.lines import Source, require_present
from indexer.source.tables.table_source import skipped_rows
from mappings import COMPANY, RESOURCES, Resource
from mappings.shards import ShardRanges

# Room for merging a candidate, as a share of its size.
_MERGE_FACTOR = 1.2


async def reindex(  # noqa: PLR0913 - what is built of what, and where it is reported
    context: IndexerContext,
    source: Source,
    *,
    resources: Collection[Resource] = RESOURCES,
    covered: CoverageRequest = BY_SOURCE,
    force: bool = False,
    processes: int = 1,
    on_progress: OnProgress = ignore_progress,
) -> RunSummary:
    """Build the given resources that the source has, and swap all of them in together if each passes its gate.

    Only records of the companies that the source covers are replaced; `covered` may name them. If one resource is
    refused, nothing is swapped, and the candidates of all are kept. `force` overrides the gate's bounds and the
    preflight, and records what it overrode. With several `processes`, as many others load the lines. Raises
    SourceError, ElasticsearchError, RefusedError, ClockError or LockedError.
    """
    ordered = [resource for resource in RESOURCES if resource in resources]
    require_present(source, ordered)
    summary = RunSummary([ResourceReport(resource.alias) for resource in ordered])
    run = _Run(context, source, covered, summary, on_progress, is_forced=force)
    check_folder(context.settings.dead_letter_folder)
    client, control, seconds = context.client, context.connection.control_index, context.settings.lock_wait_seconds
    with translate_client_errors():
        async with (
            acquire_lock(client, control, wait_seconds=seconds, on_wait=run.report_wait) as lock,
            LoaderPool(context, processes) as pool,
        ):
            return await run.run(ordered, lock, pool)


@dataclass
class _Run:
    """One run, under the lock."""

    context: IndexerContext
    source: Source
    covered: CoverageRequest
    summary: RunSummary
    on_progress: OnProgress
    is_forced: bool
    candidates: list[Candidate] = field(default_factory=list)

    def report_wait(self, note: str) -> None:
        """Report what the run waits for, with the first resource."""
        report = self.summary.resources[0]
        report.note = note
        self.on_progress(report)

    async def run(self, resources: list[Resource], lock: DistributedLock, pool: LoaderPool) -> RunSummary:
        known = await known_companies(self.context, self.source, self.covered)
        _require_coverage(known)
        await self._preflight(resources, known.coverage)
        await begin_due_lives(self.context, self.report_wait)
        for resource, report in zip(resources, self.summary.resources, strict=True):
            report.note = None
            if not self.source.has(resource):
                self._enter(report, RunStage.ABSENT)
                continue
            await self._build(resource, known, report, lock, pool)
            if resource is COMPANY and report.refusal and report.dead:
                break  # records of companies that cannot be read would all be dead letters
        if not self._is_refused:
            await check_references(self.context, self.candidates)
        with suppress(RefusedError):
            await self._swap_together()
        self.summary.set_skipped(skipped_rows(self.source))
        for candidate in self.candidates:
            self._enter(candidate.job.report, candidate.job.report.outcome(is_refused=self._is_refused))
        return self.summary

    @property
    def _is_refused(self) -> bool:
        return any(report.refusal for report in self.summary.resources)

    async def _swap_together(self) -> None:
        """Finish and swap in all candidates, if none of them is refused."""
        if self._is_refused or not self.candidates:
            return
        started = time.monotonic()
        for candidate in self.candidates:
            await candidate.finish()
        await swap_together(self.candidates)
        for candidate in self.candidates:
            await candidate.conclude()
        await publish_events(self.context)
        for candidate in self.candidates:
            candidate.job.report.seconds += time.monotonic() - started

    async def _preflight(self, resources: list[Resource], covered: Coverage) -> None:
        await ClockWatch(self.context).check()
        sizes = [await self._size(resource, covered) for resource in resources if self.source.has(resource)]
        # All candidates exist at once; they are merged one after the other.
        needed = int(sum(sizes) + max(sizes, default=0) * _MERGE_FACTOR)
        overridden = await preflight(self.context.client, needed_bytes=needed, force=self.is_forced)
        self.summary.resources[0].overridden += overridden

    async def _size(self, resource: Resource, covered: Coverage) -> float:
        """Return the bytes of the live records that the source covers; a copy of the others takes no space."""
        lifecycle = GenerationLifecycle(self.context, resource)
        with suppress(RefusedError):  # a foreign alias is reported by the build of its resource
            if live := await lifecycle.live():
                share = await lifecycle.count(live, covered.query) / max(1, await lifecycle.count(live))
                return await lifecycle.size(live) * share
        return 0

    def _enter(self, report: ResourceReport, stage: RunStage) -> None:
        report.stage = stage
        self.on_progress(report)

    async def _build(
        self, resource: Resource, known: Companies, report: ResourceReport, lock: DistributedLock, pool: LoaderPool
    ) -> None:
        """Build the candidate of one resource; a refusal is reported, not raised."""
        started, settings = time.monotonic(), self.context.settings
        with closing(DeadLetters(settings.dead_letter_folder, resource.alias)) as dead_letters:
            limit = settings.dead_letter_limit
            job = BuildJob(resource, self.source, known, report, dead_letters, limit, self.is_forced, self.on_progress)
            try:
                build = ResourceBuild(self.context, job, lock, pool, AdaptiveLimit(settings))
                self.candidates.append(await build.prepare())
            except RefusedError as refusal:
                report.refusal = str(refusal)
                self._enter(report, RunStage.REFUSED)
            report.seconds = time.monotonic() - started


def _require_coverage(known: Companies) -> None:
    """Raise SourceError for a source that names no company while some are live: it would change nothing."""
    if known.keys and known.coverage.companies == frozenset():
        raise SourceError(
            "The source holds no company, so it covers none: name those that it is for with --company, or replace "
            "everything with --all-companies."
        )


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
        follows = await self._context.cluster.refresh_to_seq_nos(present.live) if present.live else [-1]
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
