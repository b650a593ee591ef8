"""Full rebuilds: the resources of a source are built and checked, then swapped in together, one run at a time."""

import time
from collections.abc import Collection
from contextlib import closing, suppress
from dataclasses import dataclass, field

from indexer.build.build_job import BuildJob
from indexer.build.candidate import Candidate
from indexer.build.candidate_swap import swap_together
from indexer.build.parallel.loader_pool import LoaderPool
from indexer.build.reference_gate import check_references
from indexer.build.resource_build import ResourceBuild
from indexer.changes.due_lives import begin_due_lives
from indexer.context import IndexerContext
from indexer.control.event_ledger import publish_events
from indexer.documents.companies import Companies, known_companies
from indexer.documents.coverage import BY_SOURCE, Coverage, CoverageRequest
from indexer.errors import RefusedError, SourceError, translate_client_errors
from indexer.indices.adaptive_limit import AdaptiveLimit
from indexer.indices.cluster_clock import ClockWatch
from indexer.indices.lifecycle import GenerationLifecycle
from indexer.indices.preflight import preflight
from indexer.lock.distributed_lock import DistributedLock, acquire_lock
from indexer.reporting.dead_letters import DeadLetters, check_folder
from indexer.reporting.report import OnProgress, ResourceReport, RunStage, RunSummary, ignore_progress
from indexer.source.lines import Source, require_present
from indexer.source.tables.table_source import skipped_rows
from mappings import COMPANY, RESOURCES, Resource

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
