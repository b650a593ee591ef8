"""Incremental updates: upserts and deletions of single records, in any order and with any number of repeats.

A bounded queue stands between a source, which may be endless, and a run that takes its lines in batches. The position
in the source is stored in the control index: an interrupted update resumes there.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from enum import StrEnum
from itertools import islice
from typing import Generic, TypeVar

from elasticsearch import ApiError, NotFoundError, TransportError

from indexer.bulk import AdaptiveLimit
from indexer.changes.new_lives import begin_due_lives
from indexer.changes.stamps import newest_by_id
from indexer.changes.update_writer import UpdateWriter
from indexer.clock import ClockWatch, now_milliseconds, version_microseconds, version_time
from indexer.control import EventRateLimit, RunRecord, publish_events, record_last_run
from indexer.documents.builder import PendingDocument, rejected_document
from indexer.documents.companies import BY_SOURCE, Companies, CoverageRequest, companies_from_index, named_coverage
from indexer.documents.line_parser import LineParser, ParsedChunk
from indexer.errors import IndexerError, RefusedError, translate_client_errors
from indexer.generations.preflight import preflight
from indexer.lock import ignore_wait
from indexer.reporting.dead_letters import DeadLetters, check_folder
from indexer.reporting.report import (
    OnProgress,
    ResourceReport,
    RunStage,
    RunSummary,
    UnservedKind,
    excess_dead_letters,
    fault_lines,
    ignore_progress,
)
from indexer.scan import IndexRow
from indexer.settings import IndexerContext
from indexer.source.lines import ChangeStream, RejectedLine, Source, SourceLine
from indexer.source.tables.table_source import skipped_rows
from mappings import COMPANY, RESOURCES, Resource
from mappings.stored_document import TombstoneReason

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


Item = SourceLine | RejectedLine


class ResourceUpdater:
    """Applies the lines of one resource. Without a resource all lines are dead letters."""

    on_progress: OnProgress = staticmethod(ignore_progress)

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
        chunk = await asyncio.to_thread(self._parse, items)
        documents, report = newest_by_id(chunk.drafts), self._report
        report.read += len(items)
        report.add_roundings(chunk.roundings.values())
        report.corrected += chunk.corrected
        report.stale += len(chunk.drafts) - len(documents)
        for document in chunk.drafts:
            self._unserved.add_repeated(document, documents[document.id])
        for item in chunk.rejected:
            self._dead_letters.add(item)
        if self._writer is not None and documents:
            await self._write(self._writer, documents)
        self._dead_letters.update_report(report)
        self._report_progress()
        if reason := excess_dead_letters(report, self._context.settings.dead_letter_limit, at_end=False):
            causes = "".join(f"\n  {line}" for line in fault_lines(report.causes))
            raise RefusedError(f"{reason}; the update stopped, see {report.dead_letters}.{causes}")

    def _parse(self, items: list[Item]) -> ParsedChunk:
        chunk = ParsedChunk()
        for item in items:
            if self._parser is not None:
                self._parser.parse_into(item, chunk)
            elif isinstance(item, RejectedLine):
                chunk.rejected.append(item)
        return chunk

    async def _write(self, writer: UpdateWriter, documents: dict[str, PendingDocument]) -> None:
        result, report = await writer.apply(documents), self._report
        report.note = None
        report.indexed += result.indexed
        report.unchanged += result.unchanged
        report.stale += len(result.stale)
        for document, replaced in result.served:
            self._unserved.add_served(document, replaced)
        for document, live in result.stale:
            self._unserved.add_stale(document, live)
        report.unserved = self._unserved.kinds()
        for document, reason in result.rejected:
            self._dead_letters.add(rejected_document(document, reason))
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

    async def release(self) -> None:
        """Publish, and release the lock until there is more to write."""
        await self.publish()
        if self._writer is not None:
            await self._writer.release()

    async def close(self) -> None:
        """Publish, release the lock and close the dead-letter file."""
        try:
            await self.release()
        finally:
            self._dead_letters.close()


Queued = TypeVar("Queued")

# A batch waits this long for more lines after its first one.
_LINGER_SECONDS = 0.25
# After this long without a line an empty batch is returned, so that the run can publish and release its locks.
_IDLE_SECONDS = 1.0


class BoundedQueue(Generic[Queued]):
    """A queue of about two batches, filled by its own thread, so that a blocking read does not block the run."""

    def __init__(
        self, items: Iterator[Queued], batch_size: int, batch_bytes: int, bytes_of: Callable[[Queued], int]
    ) -> None:
        """Start reading; a batch has at most `batch_size` items, and at most `batch_bytes` or one item."""
        self._items = items
        self._batch_size = batch_size
        self._batch_bytes = batch_bytes
        self._bytes_of = bytes_of
        self._bytes = 0  # in the queue
        self._queue: deque[Queued] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._failure: Exception | None = None
        threading.Thread(target=self._fill, daemon=True, name="source").start()

    def _fill(self) -> None:
        try:
            for item in self._items:
                with self._changed:
                    self._changed.wait_for(lambda: not self._has_batches(2) or self._is_closed)
                    if self._is_closed:
                        return
                    self._queue.append(item)
                    self._bytes += self._bytes_of(item)
                    self._changed.notify_all()
        except Exception as failure:
            self._failure = failure
        finally:
            self.close()

    def take_batch(self) -> list[Queued] | None:
        """Return the next batch, an empty one when idle, None at the end; raise the error of the source."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_closed, _IDLE_SECONDS)
            deadline = time.monotonic() + _LINGER_SECONDS
            while self._queue and not self._has_batches(1) and not self._is_closed:
                if not self._changed.wait(deadline - time.monotonic()):
                    break
            batch = self._next_batch()
            self._changed.notify_all()
            if not batch and self._failure is not None:
                raise self._failure
            return batch if batch or not self._is_closed else None

    def _has_batches(self, count: int) -> bool:
        return len(self._queue) >= count * self._batch_size or self._bytes >= count * self._batch_bytes

    def _next_batch(self) -> list[Queued]:
        batch, size = list[Queued](), 0
        while self._queue and len(batch) < self._batch_size:
            size += self._bytes_of(self._queue[0])
            if batch and size > self._batch_bytes:
                break
            batch.append(self._queue.popleft())
        self._bytes -= sum(map(self._bytes_of, batch))
        return batch

    def close(self) -> None:
        """Stop reading."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


class UpdateCheckpoint:
    """The number of published lines of one source. Standard input has no identity, so it has no checkpoint."""

    def __init__(self, context: IndexerContext, identity: str | None, lives: Sequence[str]) -> None:
        """`identity` is the fingerprint of the source and its content, `lives` are those of the live data."""
        self._lives = [*lives]
        self._cluster = context.cluster.options(ignore_status=404)
        self._index = context.connection.control_index
        self._id = None if identity is None else f"update-{hashlib.sha256(identity.encode()).hexdigest()[:32]}"

    async def read(self) -> int:
        """Return the number of lines that an earlier run has published, 0 if their data were restored since."""
        if self._id is None:
            return 0
        try:
            response = await self._cluster.get(index=self._index, id=self._id)
        except NotFoundError:
            return 0
        if not response.get("found") or not {*response["_source"].get("lives", ())} <= {*self._lives}:
            return 0
        return int(response["_source"]["lines"])

    async def write(self, lines: int) -> None:
        """Store the number of published lines."""
        if self._id is not None:
            document = {"lines": lines, "lives": self._lives}
            await self._cluster.index(index=self._index, id=self._id, document=document)

    async def clear(self) -> None:
        """Delete the checkpoint, once the source has been read to its end."""
        if self._id is not None:
            await self._cluster.delete(index=self._index, id=self._id)


# Identifiers are remembered as hashes, at about 70 bytes each. Beyond, all are forgotten: a line that is older than
# another one of its source, and so far behind it, then counts as not served.
_MAX_REMEMBERED = 500_000
_MAX_EXAMPLES = 3


class UnservedReason(StrEnum):
    """Why a record is not served as its newest line in the source has it."""

    OLDER = "older than the live record"
    TIED = "dated like the live record, whose content differs: give the changed record a later updated_at"
    DELETED = "not newer than the deletion of the record"
    REMOVED = "older than the record that a rebuild removed because its source lacked it"
    MERGED = "one of several different lines with the same identifier and the same updated_at, of which one is served"


class UnservedRecords:
    """The records of one resource in an update that are not served as its lines have them.

    Of several lines of a record the newest counts, in any order.
    """

    def __init__(self) -> None:
        self._served: set[int] = set()
        self._reasons: dict[int, UnservedReason] = {}
        self._counts = dict.fromkeys(UnservedReason, 0)
        self._examples: dict[UnservedReason, dict[int, str]] = {reason: {} for reason in UnservedReason}

    def add_served(self, document: PendingDocument, replaced: IndexRow | None = None) -> None:
        """Note a line that is live now, and the live state that it replaced."""
        key = self._key(document)
        if key in self._served and replaced is not None and _contradicts(document, replaced):
            self._add(key, UnservedReason.MERGED, document, replaced)
        else:
            self._serve(key)

    def add_stale(self, document: PendingDocument, live: IndexRow) -> None:
        """Note a line that the live state outranks."""
        key = self._key(document)
        if key in self._served and _contradicts(document, live):
            self._add(key, UnservedReason.MERGED, document, live)
        elif key in self._served or _is_live(document, live):
            self._serve(key)
        elif key not in self._reasons:
            self._add(key, _reason(document, live), document, live)

    def add_repeated(self, document: PendingDocument, newest: PendingDocument) -> None:
        """Note a line that was not applied, because of a newer one of the record."""
        is_same_time = version_microseconds(document.version) == version_microseconds(newest.version)
        if is_same_time and document.content != newest.content and not (document.is_tombstone or newest.is_tombstone):
            self._add(self._key(document), UnservedReason.MERGED, document, newest)

    def kinds(self) -> list[UnservedKind]:
        """Return each reason with its number of records and some examples, the most frequent first."""
        found = [
            UnservedKind(reason.value, count, list(self._examples[reason].values()))
            for reason, count in self._counts.items()
            if count
        ]
        return sorted(found, key=lambda kind: -kind.count)

    def _key(self, document: PendingDocument) -> int:
        if len(self._served) + len(self._reasons) >= _MAX_REMEMBERED:
            self._served.clear()
            self._reasons.clear()
        return hash(document.id)

    def _serve(self, key: int) -> None:
        self._served.add(key)
        if self._reasons.get(key) is not UnservedReason.MERGED:
            self._remove(key)

    def _add(
        self, key: int, reason: UnservedReason, document: PendingDocument, other: IndexRow | PendingDocument
    ) -> None:
        if self._reasons.get(key) is reason:
            return
        self._remove(key)
        self._reasons[key] = reason
        self._counts[reason] += 1
        if len(self._examples[reason]) < _MAX_EXAMPLES:
            self._examples[reason][key] = _example(document, other)

    def _remove(self, key: int) -> None:
        if (reason := self._reasons.pop(key, None)) is not None:
            self._counts[reason] -= 1
            self._examples[reason].pop(key, None)


def _is_live(document: PendingDocument, live: IndexRow) -> bool:
    """Whether the live state is that of the line, apart from members that are not content."""
    if document.is_tombstone or live.deleted:
        return document.is_tombstone and live.deleted
    is_same_time = version_microseconds(document.version) == version_microseconds(live.version)
    return is_same_time and document.content == live.content


def _contradicts(document: PendingDocument, live: IndexRow) -> bool:
    """Whether a line and the live record have the same time and different content."""
    is_same_time = version_microseconds(document.version) == version_microseconds(live.version)
    return is_same_time and document.content != live.content and not (document.is_tombstone or live.deleted)


def _reason(document: PendingDocument, live: IndexRow) -> UnservedReason:
    if live.deleted:
        is_removal = live.reason == TombstoneReason.VANISHED
        return UnservedReason.REMOVED if is_removal else UnservedReason.DELETED
    return UnservedReason.TIED if _contradicts(document, live) else UnservedReason.OLDER


def _example(document: PendingDocument, other: IndexRow | PendingDocument) -> str:
    line = document.line
    times = f"{version_time(document.version)}, served {version_time(other.version)}"
    return f"{document.id} in {line.file}:{line.number} ({times})"
