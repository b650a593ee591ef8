"""Full rebuilds: each resource of a source is built, checked and swapped in separately, one run at a time."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from indexer.build.build_job import BuildJob
from indexer.build.resource_build import ResourceBuild
from indexer.changes.due_lives import begin_due_lives
from indexer.control.event_ledger import publish_events
from indexer.documents.companies import known_companies
from indexer.errors import RefusedError, SourceError, translate_client_errors
from indexer.indices.adaptive_limit import AdaptiveLimit
from indexer.indices.cluster_clock import ClockWatch
from indexer.indices.lifecycle import GenerationLifecycle
from indexer.indices.preflight import preflight
from indexer.lock.distributed_lock import DistributedLock, acquire_lock
from indexer.reporting.dead_letters import DeadLetters, check_folder
from indexer.reporting.report import OnProgress, ResourceReport, RunStage, RunSummary, ignore_progress
from mappings import COMPANY, RESOURCES

if TYPE_CHECKING:
    from collections.abc import Collection

    from indexer.context import IndexerContext
    from indexer.documents.companies import Companies
    from indexer.source.lines import Source
    from mappings import Resource

# The live generation, the candidate, and room for merging it.
_DISK_FACTOR = 2.2


async def reindex(
    context: IndexerContext,
    source: Source,
    *,
    resources: Collection[Resource] = RESOURCES,
    force: bool = False,
    on_progress: OnProgress = ignore_progress,
) -> RunSummary:
    """Build the given resources that the source has, and swap in each build that passes its gate.

    A refused resource leaves its live generation untouched; if companies are refused, the run ends. `force` overrides
    the gate's bounds and the preflight, and records what it overrode. Raises SourceError, ElasticsearchError,
    RefusedError, ClockError or LockedError.
    """
    ordered = [resource for resource in RESOURCES if resource in resources]
    if not [resource for resource in ordered if source.has(resource)]:
        raise SourceError(f"The source has nothing for any of: {', '.join(resource.alias for resource in ordered)}.")
    summary = RunSummary([ResourceReport(resource.alias) for resource in ordered])
    run = _Run(context, source, summary, on_progress, is_forced=force)
    check_folder(context.settings.dead_letter_folder)
    with translate_client_errors():
        settings = context.settings
        async with acquire_lock(
            context.client,
            context.connection.control_index,
            wait_seconds=settings.lock_wait_seconds,
            on_wait=run.report_wait,
        ) as lock:
            return await run.run(ordered, lock)


@dataclass
class _Run:
    """One run, under the lock."""

    context: IndexerContext
    source: Source
    summary: RunSummary
    on_progress: OnProgress
    is_forced: bool

    def report_wait(self, note: str) -> None:
        """Report what the run waits for, with the first resource."""
        report = self.summary.resources[0]
        report.note = note
        self.on_progress(report)

    async def run(self, resources: list[Resource], lock: DistributedLock) -> RunSummary:
        known = await known_companies(self.context, self.source)
        await self._preflight(resources)
        await begin_due_lives(self.context, self.report_wait)
        for resource, report in zip(resources, self.summary.resources, strict=True):
            report.note = None
            if not self.source.has(resource):
                self._enter(report, RunStage.ABSENT)
                continue
            await self._attempt(resource, known, report, lock)
            if resource is COMPANY and report.refusal:
                break
        return self.summary

    async def _preflight(self, resources: list[Resource]) -> None:
        await ClockWatch(self.context).check()
        sizes = [await self._size(resource) for resource in resources if self.source.has(resource)]
        needed = int(max(sizes, default=0) * _DISK_FACTOR)
        overridden = await preflight(self.context.client, needed_bytes=needed, force=self.is_forced)
        self.summary.resources[0].overridden += overridden

    async def _size(self, resource: Resource) -> int:
        lifecycle = GenerationLifecycle(self.context, resource)
        with suppress(RefusedError):  # a foreign alias is reported by the build of its resource
            if live := await lifecycle.live():
                return await lifecycle.size(live)
        return 0

    def _enter(self, report: ResourceReport, stage: RunStage) -> None:
        report.stage = stage
        self.on_progress(report)

    async def _attempt(
        self, resource: Resource, known: Companies, report: ResourceReport, lock: DistributedLock
    ) -> None:
        """Rebuild one resource; a refusal is reported, not raised."""
        started, settings = time.monotonic(), self.context.settings
        with closing(DeadLetters(settings.dead_letter_folder, resource.alias)) as dead_letters:
            limit = settings.dead_letter_limit
            job = BuildJob(resource, self.source, known, report, dead_letters, limit, self.is_forced, self.on_progress)
            try:
                await ResourceBuild(self.context, job, lock, AdaptiveLimit(settings)).run()
                await publish_events(self.context)
            except RefusedError as refusal:
                report.refusal = str(refusal)
            report.seconds = time.monotonic() - started
        self._enter(report, RunStage.REFUSED if report.refusal else RunStage.SWAPPED)
