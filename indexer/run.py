"""Full rebuilds: each resource of a source is built, compared and swapped in on its own, one run at a time."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from indexer import companies
from indexer.build import Build
from indexer.dead_letters import DeadLetters
from indexer.errors import RefusedError, SourceError, engine_errors
from indexer.events import tell
from indexer.job import Job
from indexer.lifecycle import Lifecycle
from indexer.lock import Lock, locked
from indexer.pace import Pace
from indexer.preflight import preflight
from indexer.report import OnProgress, ResourceReport, Stage, Summary, ignore
from mappings import COMPANY, RESOURCES

if TYPE_CHECKING:
    from collections.abc import Collection

    from indexer.companies import Companies
    from indexer.engine import Engine
    from indexer.source import Source
    from mappings import Resource

# The live generation, the candidate, and room for merging it.
_ROOM = 2.2


async def reindex(
    engine: Engine,
    source: Source,
    *,
    resources: Collection[Resource] = RESOURCES,
    force: bool = False,
    on_progress: OnProgress = ignore,
) -> Summary:
    """Build what the source has of the given resources and swap each build in once it is let through the gate.

    A resource that is refused leaves its live generation untouched; refused companies end the run. `force` overrides
    the gate's bounds and the preflight, and notes what it overrode. Raises SourceError, EngineError, RefusedError or
    LockedError.
    """
    ordered = [resource for resource in RESOURCES if resource in resources]
    if not [resource for resource in ordered if source.has(resource)]:
        raise SourceError(f"The source has nothing for any of: {', '.join(resource.alias for resource in ordered)}.")
    summary = Summary([ResourceReport(resource.alias) for resource in ordered])
    run = _Run(engine, source, summary, on_progress, is_forced=force)
    with engine_errors():
        settings = engine.settings
        async with locked(
            engine.client,
            engine.connection.control_index,
            wait_seconds=settings.lock_wait_seconds,
            on_wait=run.tell,
        ) as lock:
            return await run.over(ordered, lock)


@dataclass
class _Run:
    """One run under the lock."""

    engine: Engine
    source: Source
    summary: Summary
    on_progress: OnProgress
    is_forced: bool

    def tell(self, note: str) -> None:
        """Show what is being waited for, beside the first resource."""
        report = self.summary.resources[0]
        report.note = note
        self.on_progress(report)

    async def over(self, resources: list[Resource], lock: Lock) -> Summary:
        known = await self._companies()
        await self._preflight(resources)
        for resource, report in zip(resources, self.summary.resources, strict=True):
            report.note = None
            if not self.source.has(resource):
                self._enter(report, Stage.ABSENT)
                continue
            await self._attempt(resource, known, report, lock)
            if resource is COMPANY and report.refusal:
                break
        return self.summary

    async def _companies(self) -> Companies:
        if self.source.has(COMPANY):
            return await asyncio.to_thread(companies.from_source, self.source)
        return await companies.from_index(self.engine.client, self.engine.connection.alias(COMPANY))

    async def _preflight(self, resources: list[Resource]) -> None:
        sizes = [await self._size(resource) for resource in resources if self.source.has(resource)]
        needed = int(max(sizes, default=0) * _ROOM)
        overridden = await preflight(self.engine.client, needed_bytes=needed, force=self.is_forced)
        self.summary.resources[0].overridden += overridden

    async def _size(self, resource: Resource) -> int:
        lifecycle = Lifecycle(self.engine, resource)
        with suppress(RefusedError):  # an alias that is not ours is told by the build of its resource
            if live := await lifecycle.live():
                return await lifecycle.size(live)
        return 0

    def _enter(self, report: ResourceReport, stage: Stage) -> None:
        report.stage = stage
        self.on_progress(report)

    async def _attempt(self, resource: Resource, known: Companies, report: ResourceReport, lock: Lock) -> None:
        """Rebuild one resource; a refusal is reported, not raised."""
        started, settings = time.monotonic(), self.engine.settings
        with closing(DeadLetters(settings.dead_letter_folder, resource.alias)) as letters:
            limit = settings.dead_letter_limit
            job = Job(resource, self.source, known, report, letters, limit, self.is_forced, self.on_progress)
            try:
                await Build(self.engine, job, lock, Pace(settings)).run()
                await tell(self.engine)
            except RefusedError as refusal:
                report.refusal = str(refusal)
            report.seconds = time.monotonic() - started
        self._enter(report, Stage.REFUSED if report.refusal else Stage.SWAPPED)
