"""Incremental updates: upserts and deletions of single records, in any order and with any number of repeats."""

import asyncio
import time
from contextlib import AsyncExitStack, suppress
from itertools import islice

from elasticsearch import ApiError, TransportError

from indexer.changes.due_lives import begin_due_lives
from indexer.context import IndexerContext
from indexer.control.event_ledger import EventRateLimit, publish_events
from indexer.documents.companies import Companies, companies_from_index, named_coverage
from indexer.documents.coverage import BY_SOURCE, CoverageRequest
from indexer.errors import IndexerError, translate_client_errors
from indexer.indices.adaptive_limit import AdaptiveLimit
from indexer.indices.cluster_clock import ClockWatch
from indexer.indices.preflight import preflight
from indexer.lock.distributed_lock import ignore_wait
from indexer.reporting.dead_letters import check_folder
from indexer.reporting.report import OnProgress, ResourceReport, RunStage, RunSummary, ignore_progress
from indexer.source.lines import ChangeStream, RejectedLine, Source, SourceLine
from indexer.source.tables.table_source import skipped_rows
from indexer.updates.bounded_queue import BoundedQueue
from indexer.updates.resource_updater import Item, ResourceUpdater
from indexer.updates.update_checkpoint import UpdateCheckpoint
from mappings import RESOURCES, Resource

# The longest time between writing and publishing while more lines keep arriving.
_PUBLISH_INTERVAL_SECONDS = 1.0


async def update(
    context: IndexerContext,
    source: Source,
    *,
    covered: CoverageRequest = BY_SOURCE,
    on_progress: OnProgress = ignore_progress,
) -> RunSummary:
    """Apply every envelope of a source, in any order, to the live indices.

    If `covered`, or the source, names companies, lines and records of any other company are refused.

    An interrupted update of a file resumes after the last published line. Each resource must have been built before.
    Raises SourceError, ElasticsearchError, RefusedError, ClockError or LockedError.
    """
    check_folder(context.settings.dead_letter_folder)
    with translate_client_errors():
        # A clock that is behind would find the times of all lines in the future.
        await ClockWatch(context).check()
        await preflight(context.client, needed_bytes=0, force=False)
        lives = await begin_due_lives(context, ignore_wait)
        companies = await companies_from_index(context)
        companies.coverage = named_coverage(source, companies, covered)
        with source.changes() as stream:
            checkpoint = UpdateCheckpoint(context, stream.identity, lives)
            run = _UpdateRun(context, companies, stream, checkpoint, on_progress)
            await run.run()
        run.summary.set_skipped(skipped_rows(source))
        return run.summary


class _UpdateRun:
    """One run: distributes the lines of a stream to one updater per resource."""

    def __init__(
        self,
        context: IndexerContext,
        companies: Companies,
        stream: ChangeStream,
        checkpoint: UpdateCheckpoint,
        on_progress: OnProgress,
    ) -> None:
        self.summary = RunSummary()
        self._context = context
        self._companies = companies
        self._stream = stream
        self._checkpoint = checkpoint
        self._on_progress = on_progress
        self._limit = AdaptiveLimit(context.settings)
        self._event_limit = EventRateLimit()
        self._updaters: dict[Resource | None, ResourceUpdater] = {}
        self._published_at = time.monotonic()
        self._published_lines = 0

    async def run(self) -> None:
        """Apply all lines. Events are published even if the run fails."""
        try:
            await self._apply_all()
        except BaseException:
            with suppress(ApiError, TransportError, IndexerError):
                await publish_events(self._context, seconds=0.0)
            raise
        await publish_events(self._context)

    async def _apply_all(self) -> None:
        lines = await self._checkpoint.read()
        settings, remaining = self._context.settings, islice(self._stream.lines, lines, None)
        queue = BoundedQueue(remaining, settings.bulk_documents, settings.bulk_bytes, _bytes_of)
        async with AsyncExitStack() as self._exit_stack:
            self._exit_stack.callback(queue.close)
            while (batch := await asyncio.to_thread(queue.take_batch)) is not None:
                await self._apply(batch)
                lines += len(batch)
                if not batch or time.monotonic() - self._published_at > _PUBLISH_INTERVAL_SECONDS:
                    await self._publish(lines, is_idle=not batch)
        await self._checkpoint.clear()
        for updater in self._updaters.values():
            updater.enter_stage(RunStage.UPDATED)

    async def _apply(self, batch: list[tuple[Resource, SourceLine] | RejectedLine]) -> None:
        """Apply a batch resource by resource, companies first, since the other resources refer to them."""
        by_resource: dict[Resource | None, list[Item]] = {}
        for item in batch:
            resource, line = (item.resource, item) if isinstance(item, RejectedLine) else item
            by_resource.setdefault(resource, []).append(line)
        for resource in [*RESOURCES, None]:
            if resource in by_resource:
                await self._updater(resource).apply(by_resource[resource])

    async def _publish(self, lines: int, *, is_idle: bool) -> None:
        for updater in self._updaters.values():
            await (updater.release() if is_idle else updater.publish())
        if lines != self._published_lines:
            await self._checkpoint.write(lines)
            self._published_lines = lines
        await publish_events(self._context, self._event_limit.allows)
        self._published_at = time.monotonic()

    def _updater(self, resource: Resource | None) -> ResourceUpdater:
        """Return the updater of a resource, created on its first line."""
        if resource not in self._updaters:
            report = ResourceReport(resource.alias if resource else "unnamed", RunStage.READING)
            report.bytes_total = self._stream.total
            self.summary.resources.append(report)
            updater = ResourceUpdater(self._context, resource, self._companies, report, self._limit)
            updater.on_progress = self._show
            updater.release_before_wait(self._release_others)
            self._updaters[resource] = updater
            self._exit_stack.push_async_callback(updater.close)
        return self._updaters[resource]

    async def _release_others(self, waiting: ResourceUpdater) -> None:
        """Publish and release every resource but one."""
        for updater in self._updaters.values():
            if updater is not waiting:
                await updater.release()

    def _show(self, report: ResourceReport) -> None:
        report.bytes_read = self._stream.position()
        report.retries = self._limit.retries
        self._on_progress(report)


def _bytes_of(item: tuple[Resource, SourceLine] | RejectedLine) -> int:
    return len(item.data if isinstance(item, RejectedLine) else item[1].data)
