"""Incremental updates: upserts and deletions of single records, in any order and with any number of repeats.

A bounded queue stands between a source, which may be endless, and a run that takes its lines in batches. The position
in the source is stored in the control index: an interrupted update resumes there.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from itertools import islice
from typing import Self

from elasticsearch import ApiError, NotFoundError, TransportError

from indexer.after_publish import PublicationPace, after_publish, after_run, name_sequences
from indexer.bulk import AdaptiveLimit
from indexer.changes.epochs import begin_due_epochs
from indexer.changes.stamps import newest_by_id
from indexer.changes.unserved import UnservedRecords
from indexer.changes.update_writer import UpdateWriter
from indexer.clock import ClockWatch, now_milliseconds
from indexer.control import RunRecord, record_last_run
from indexer.documents.builder import PendingDocument, rejected_document
from indexer.documents.companies import BY_SOURCE, Companies, CoverageRequest, companies_from_index, named_coverage
from indexer.documents.line_parser import LineParser, ParsedChunk
from indexer.errors import IndexerError, RefusedError, translate_client_errors
from indexer.generations.preflight import preflight
from indexer.lock import ignore_wait
from indexer.names import NAME_TARGETS, Names
from indexer.reporting.report import (
    DeadLetters,
    OnProgress,
    ResourceReport,
    RunStage,
    RunSummary,
    check_folder,
    excess_dead_letters,
    fault_lines,
    ignore_progress,
)
from indexer.settings import IndexerContext
from indexer.source.lines import BoundedQueue, ChangeStream, RejectedLine, Source, SourceLine, row_notes
from indexer.troubles import TroubleLog, report_standing
from mappings import COMPANY, RESOURCES, Resource

# The longest time between writing and publishing while more lines keep arriving.
_PUBLISH_INTERVAL_SECONDS = 1.0
# How often a run without an end does what follows a run.
_WITHDRAW_INTERVAL_SECONDS = 60.0


async def update(
    context: IndexerContext,
    source: Source,
    *,
    covered: CoverageRequest = BY_SOURCE,
    on_progress: OnProgress = ignore_progress,
) -> RunSummary:
    """Apply every envelope of a source, in any order, to the live indices.

    If `covered`, or the source, names companies, lines and records of any other company are refused. An interrupted
    update of a file resumes after the last published line. Each resource must have been built before. Raises
    SourceError, ElasticsearchError, RefusedError, ClockError or LockedError.
    """
    check_folder(context.settings.dead_letter_folder)
    with translate_client_errors():
        # A clock that is behind would find the times of all lines in the future.
        await ClockWatch(context).check()
        await preflight(context.cluster, needed_bytes=0, force=False)
        epochs = await begin_due_epochs(context, ignore_wait)
        companies = await companies_from_index(context)
        companies.coverage = named_coverage(source, companies, covered)
        with source.changes() as stream:
            checkpoint = UpdateCheckpoint(context, stream.identity, epochs)
            updaters, pace = Updaters(context, companies, stream, on_progress), PublicationPace()
            lines, settings = await checkpoint.read(), context.settings
            remaining = islice(stream.lines, lines, None)
            queue = BoundedQueue(remaining, settings.bulk_documents, settings.bulk_bytes, _bytes_of)
            async with _hooks_at_failure(context):
                async with aclosing(queue.batches()) as batches, updaters:
                    published_at = withdrawn_at = time.monotonic()
                    async for batch in batches:
                        for resource, items in _by_resource(batch):
                            await updaters.of(resource).apply(items)
                        lines += len(batch)
                        if batch and time.monotonic() - published_at <= _PUBLISH_INTERVAL_SECONDS:
                            continue
                        is_due = time.monotonic() - withdrawn_at > _WITHDRAW_INTERVAL_SECONDS
                        await updaters.publish(is_idle=is_due or not batch)
                        await checkpoint.write(lines)
                        if is_due:
                            await updaters.end_run()
                            withdrawn_at = time.monotonic()
                        await after_publish(context, pace.allows)
                        published_at = time.monotonic()
                await updaters.end_run()
                await checkpoint.clear()
                updaters.enter_stage(RunStage.UPDATED)
        updaters.summary.add_row_notes(row_notes(source))
        await report_standing(context, updaters.summary)
        return updaters.summary


@asynccontextmanager
async def _hooks_at_failure(context: IndexerContext) -> AsyncIterator[None]:
    """Do what follows a publication at the end of a run that fails."""
    try:
        yield
    except BaseException:
        with suppress(ApiError, TransportError, IndexerError):
            await after_publish(context, seconds=0.0)
        raise


def _bytes_of(item: tuple[Resource, SourceLine] | RejectedLine) -> int:
    return len(item.data if isinstance(item, RejectedLine) else item[1].data)


Item = SourceLine | RejectedLine


def _by_resource(
    batch: list[tuple[Resource, SourceLine] | RejectedLine],
) -> Iterator[tuple[Resource | None, list[Item]]]:
    """Yield the lines of each resource, companies first, since the other resources refer to them."""
    found: dict[Resource | None, list[Item]] = {}
    for item in batch:
        resource, line = (item.resource, item) if isinstance(item, RejectedLine) else item
        found.setdefault(resource, []).append(line)
    return ((resource, found[resource]) for resource in [*RESOURCES, None] if resource in found)


class Updaters:
    """The updaters of a run, one for each resource, as a context that closes them."""

    def __init__(
        self, context: IndexerContext, companies: Companies, stream: ChangeStream, on_progress: OnProgress
    ) -> None:
        self.summary = RunSummary()
        self._context = context
        self._companies = companies
        self._stream = stream
        self._on_progress = on_progress
        self._limit = AdaptiveLimit(context.settings)
        self._names = Names(context, before_look_up=self._before_look_up)
        self._seen: dict[str, int] | None = None  # changes of agents and offices before the first look-up of names
        self._updaters: dict[Resource | None, ResourceUpdater] = {}
        self._exit_stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_details: object) -> None:
        await self._exit_stack.aclose()

    def of(self, resource: Resource | None) -> ResourceUpdater:
        """Return the updater of a resource, created on its first line."""
        if resource not in self._updaters:
            report = ResourceReport(resource.alias if resource else "unnamed", RunStage.READING)
            report.bytes_total = self._stream.total
            self.summary.resources.append(report)
            updater = ResourceUpdater(self._context, resource, self._companies, report, self._limit)
            updater.on_progress = self._show
            updater.names = self._names
            updater.release_before_wait(self._release_others)
            self._updaters[resource] = updater
            self._exit_stack.push_async_callback(updater.close)
        return self._updaters[resource]

    async def publish(self, *, is_idle: bool) -> None:
        """Publish what is applied; when idle, release the locks until there is more to write."""
        for updater in self._updaters.values():
            await (updater.release() if is_idle else updater.publish())
        self._names.forget()

    async def _before_look_up(self) -> None:
        """Publish the agents and offices that this run has written, so that their names are found."""
        if self._seen is None:
            self._seen = await name_sequences(self._context)
        for resource, updater in self._updaters.items():
            if resource is not None and resource.alias in NAME_TARGETS:
                await updater.publish()

    async def end_run(self) -> None:
        """Do what follows a run; no updater may hold a lock."""
        self.summary.notes += await after_run(self._context, self._seen)
        self._seen = None

    def enter_stage(self, stage: RunStage) -> None:
        """Report the next stage of all resources."""
        for updater in self._updaters.values():
            updater.enter_stage(stage)

    async def _release_others(self, waiting: ResourceUpdater) -> None:
        """Publish and release every resource but one."""
        for updater in self._updaters.values():
            if updater is not waiting:
                await updater.release()

    def _show(self, report: ResourceReport) -> None:
        report.bytes_read = self._stream.position()
        report.retries = self._limit.retries
        self._on_progress(report)


class ResourceUpdater:
    """Applies the lines of one resource. Without a resource all lines are dead letters."""

    on_progress: OnProgress = staticmethod(ignore_progress)
    names: Names  # where those are found that the source lacks

    def __init__(
        self,
        context: IndexerContext,
        resource: Resource | None,
        companies: Companies,
        report: ResourceReport,
        limit: AdaptiveLimit,
    ) -> None:
        """Acquire the lock of the resource lazily."""
        self._context = context
        self._resource = resource
        self._companies = companies
        self._report = report
        self._dead_letters = DeadLetters(context.settings.dead_letter_folder, report.resource)
        self._parser = LineParser(resource, companies, context.settings) if resource else None
        self._writer = UpdateWriter(context, resource, limit, self._note_wait) if resource else None
        if self._writer is not None:
            self._writer.covered = companies.coverage
        self._unserved = UnservedRecords()
        self._troubles = TroubleLog(context, resource) if resource else None
        self._newest = 0  # the latest `updated_at` so far, milliseconds since 1970
        self._started = time.monotonic()

    def release_before_wait(self, release: Callable[[ResourceUpdater], Awaitable[None]]) -> None:
        """Await `release` before this one waits for the lock of its resource."""
        if self._writer is not None:
            self._writer.before_wait = lambda: release(self)

    def enter_stage(self, stage: RunStage) -> None:
        """Report the next stage."""
        self._report.stage = stage
        self._report_progress()

    def _note_wait(self, note: str) -> None:
        self._report.note = note
        self._report_progress()

    def _report_progress(self) -> None:
        self._report.seconds = time.monotonic() - self._started
        self.on_progress(self._report)

    async def apply(self, items: list[Item]) -> None:
        """Apply the newest line of each record if it is newer than the live state.

        Raises RefusedError when too many lines are bad: the source is probably the wrong one.
        """
        if self._troubles is not None:
            await self._troubles.open()
        chunk = await asyncio.to_thread(self._parse, items)
        documents, report = newest_by_id(chunk.drafts), self._report
        report.read += len(items)
        report.add_roundings(chunk.roundings.values())
        report.corrected += chunk.corrected
        report.add_emptied(chunk.emptied)
        report.stale += len(chunk.drafts) - len(documents)
        for document in chunk.drafts:
            self._unserved.add_repeated(document, documents[document.id])
        for item in chunk.rejected:
            self._reject(item)
        if self._writer is not None and documents:
            await self._write(self._writer, documents)
        self._dead_letters.update_report(report)
        self._report_progress()
        if reason := excess_dead_letters(report, self._context.settings.dead_letter_limit, at_end=False):
            causes = "".join(f"\n  {line}" for line in fault_lines(report.causes))
            raise RefusedError(f"{reason}; the update stopped.{causes}")

    def _reject(self, item: RejectedLine) -> None:
        self._dead_letters.add(item)
        if self._troubles is not None:
            self._troubles.add_rejected(item)

    def _parse(self, items: list[Item]) -> ParsedChunk:
        chunk = ParsedChunk()
        for item in items:
            if self._parser is not None:
                self._parser.parse_into(item, chunk)
            elif isinstance(item, RejectedLine):
                chunk.rejected.append(item)
        return chunk

    async def _write(self, writer: UpdateWriter, documents: dict[str, PendingDocument]) -> None:
        named = {document.id: document for document in await self.names.fill(documents.values())}
        result, report = await writer.apply(named), self._report
        report.note = None
        report.zoneless += sum(document.zoneless for document in named.values())
        report.indexed += result.indexed
        report.unchanged += result.unchanged
        report.stale += len(result.stale)
        for document, replaced in result.served:
            self._unserved.add_served(document, replaced)
            if self._troubles is not None:
                self._troubles.add_served(document, replaced)
        for document, live in result.stale:
            self._unserved.add_stale(document, live)
        report.unserved = self._unserved.kinds()
        for document, reason in result.rejected:
            self._reject(rejected_document(document, reason))
        self._newest = max(self._newest, *(document.updated_milliseconds for document in documents.values()))
        if self._resource is COMPANY:
            await self.publish()
            await self._companies.reload(self._context)

    async def publish(self) -> None:
        """Publish the applied changes."""
        self._dead_letters.flush()
        if self._writer is not None and await self._writer.publish():
            report = self._report
            run = RunRecord("update", now_milliseconds(), self._newest, report.read, report.dead, report.dead_letters)
            await record_last_run(self._context, self._writer.alias, run)
        if self._troubles is not None:
            await self._troubles.save()

    async def release(self) -> None:
        """Publish, and release the lock until there is more to write; it is also released if that fails."""
        try:
            await self.publish()
        finally:
            if self._writer is not None:
                await self._writer.release()

    async def close(self) -> None:
        """Publish, release the lock and close the dead-letter file."""
        try:
            await self.release()
        finally:
            self._dead_letters.close()


class UpdateCheckpoint:
    """The number of published lines of one source. Standard input has no identity, so it has no checkpoint."""

    def __init__(self, context: IndexerContext, identity: str | None, epochs: Sequence[str]) -> None:
        """`identity` is the fingerprint of the source and its content; `epochs` are those of the live data."""
        self._epochs = [*epochs]
        self._cluster = context.cluster.options(ignore_status=404)
        self._index = context.connection.control_index
        self._written = 0
        self._id = None if identity is None else f"update-{hashlib.sha256(identity.encode()).hexdigest()[:32]}"

    async def read(self) -> int:
        """Return the number of lines that an earlier run has published, 0 if their data were restored since."""
        if self._id is None:
            return 0
        try:
            response = await self._cluster.get(index=self._index, id=self._id)
        except NotFoundError:
            return 0
        if not response.get("found") or not {*response["_source"].get("lives", ())} <= {*self._epochs}:
            return 0
        return int(response["_source"]["lines"])

    async def write(self, lines: int) -> None:
        """Store the number of published lines."""
        if self._id is not None and lines != self._written:
            document = {"lines": lines, "lives": self._epochs}
            await self._cluster.index(index=self._index, id=self._id, document=document)
            self._written = lines

    async def clear(self) -> None:
        """Delete the checkpoint, once the source has been read to its end."""
        if self._id is not None:
            await self._cluster.delete(index=self._index, id=self._id)
