"""Rebuilds: each resource is loaded into a new generation, verified, and swapped in on its own."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elasticsearch import ApiError, TransportError

from cluster.control import publish_mark, read_mark
from indexer import companies
from indexer.clocks import Stamps, baseline
from indexer.dead_letters import DeadLetters
from indexer.duplicates import settle
from indexer.engine import Engine
from indexer.errors import RefusedError, SourceError, engine_errors
from indexer.lifecycle import Generations, Lifecycle
from indexer.loading import Job, Loader
from indexer.lock import Lock, locked
from indexer.report import OnProgress, ResourceReport, Stage, Summary, ignore
from indexer.source import Directory
from mappings import COMPANY, RESOURCES

if TYPE_CHECKING:
    from collections.abc import Collection

    from elasticsearch import AsyncElasticsearch

    from cluster.connection import ConnectionSettings
    from cluster.control import Mark
    from indexer.companies import Companies
    from indexer.settings import IndexerSettings
    from indexer.source import Source
    from mappings import Resource


async def reindex(  # noqa: PLR0913 - where to build, what to build, whom to tell
    client: AsyncElasticsearch,
    connection: ConnectionSettings,
    settings: IndexerSettings,
    source: Source | Path,
    *,
    resources: Collection[Resource] = RESOURCES,
    on_progress: OnProgress = ignore,
) -> Summary:
    """Build what the source has of the given resources and swap each build in once it is verified.

    A resource that is refused leaves its live generation untouched; refused companies end the run. Raises
    SourceError, EngineError or LockedError.
    """
    opened = Directory(source) if isinstance(source, Path) else source
    ordered = [resource for resource in RESOURCES if resource in resources]
    if not [resource for resource in ordered if opened.has(resource)]:
        raise SourceError(f"The source has no file for any of: {', '.join(resource.alias for resource in ordered)}.")
    with engine_errors():
        async with locked(client, connection.control_index) as lock:
            engine = Engine(client, connection, settings)
            return await _Run(engine, opened, lock, on_progress).over(ordered)


@dataclass(frozen=True)
class _Run:
    """One run under the lock."""

    engine: Engine
    source: Source
    lock: Lock
    on_progress: OnProgress

    async def over(self, resources: list[Resource]) -> Summary:
        summary = Summary([ResourceReport(resource.alias) for resource in resources])
        known = await self._companies()
        for resource, report in zip(resources, summary.resources, strict=True):
            if not self.source.has(resource):
                self._enter(report, Stage.ABSENT)
                continue
            await self._attempt(resource, known, report)
            if resource is COMPANY and report.refusal:
                break
        return summary

    async def _companies(self) -> Companies:
        if self.source.has(COMPANY):
            return await asyncio.to_thread(companies.from_source, self.source)
        return await companies.from_index(self.engine.client, self.engine.connection.alias(COMPANY))

    def _enter(self, report: ResourceReport, stage: Stage) -> None:
        report.stage = stage
        self.on_progress(report)

    async def _attempt(self, resource: Resource, known: Companies, report: ResourceReport) -> None:
        """Rebuild one resource; a refusal is reported, not raised."""
        started = time.monotonic()
        with closing(DeadLetters(self.engine.settings.dead_letter_folder, resource.alias)) as letters:
            try:
                await self._rebuild(Job(resource, self.source, known, report, letters))
            except RefusedError as refusal:
                report.refusal = str(refusal)
            report.seconds = time.monotonic() - started
        self._enter(report, Stage.REFUSED if report.refusal else Stage.SWAPPED)

    async def _rebuild(self, job: Job) -> None:
        """Build the next generation and swap it in; whatever fails before the swap deletes it again."""
        lifecycle = Lifecycle(self.engine, job.resource)
        present = await lifecycle.generations()
        stamps = Stamps(await self._baseline(lifecycle, present))
        candidate = await lifecycle.create(present)
        job.report.generation, job.report.previous = candidate, present.live
        try:
            await self._fill(job, lifecycle, candidate, stamps)
            await self.lock.verify()
            await lifecycle.swap(candidate, present.live)
        except BaseException:
            with suppress(ApiError, TransportError):
                await lifecycle.discard(candidate)
            raise
        await publish_mark(
            self.engine.client, self.engine.connection.control_index, lifecycle.alias, stamps.published(candidate)
        )
        await lifecycle.prune(await lifecycle.generations())

    async def _baseline(self, lifecycle: Lifecycle, present: Generations) -> Mark | None:
        client, control = self.engine.client, self.engine.connection.control_index
        return await baseline(client, present.live, await read_mark(client, control, lifecycle.alias))

    async def _fill(self, job: Job, lifecycle: Lifecycle, candidate: str, stamps: Stamps) -> None:
        """Load the candidate and verify what it holds."""
        live = job.report.previous
        self._enter(job.report, Stage.READING)
        loader = Loader(self.engine, job, candidate, live, stamps, self.on_progress)
        await loader.load()
        self._enter(job.report, Stage.FINISHING)
        await lifecycle.refresh(candidate)
        if loader.repeated:
            await settle(self.engine.client, candidate, job, loader.repeated)
        job.refuse_above(self.engine.settings.dead_letter_limit)
        await verify(job.report, lifecycle, candidate, live)
        await lifecycle.finish(candidate)


async def verify(report: ResourceReport, lifecycle: Lifecycle, candidate: str, live: str | None) -> None:
    """Raise RefusedError unless the candidate holds exactly what was accepted, and something if `live` does."""
    report.accepted = report.read - report.bad - report.superseded
    report.tombstones = await lifecycle.count(candidate, deleted=True)
    counted = await lifecycle.count(candidate)
    if counted != report.accepted:
        raise RefusedError(
            f"{candidate} holds {counted} documents, but {report.accepted} were accepted: not swapped; run again."
        )
    if counted == report.tombstones and live is not None and await lifecycle.count(live, deleted=False):
        raise RefusedError(
            f"The source has no {report.resource}, but {live} has some: nothing was swapped. Is the source complete?"
        )
