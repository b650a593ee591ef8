"""The updates of one resource: lines are parsed, applied by its update writer, and counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from indexer.changes.change_kind import newest_by_id
from indexer.clock import now_milliseconds
from indexer.context import IndexerContext
from indexer.control.last_run import RunRecord, record_last_run
from indexer.documents.builder import PendingDocument, rejected_document
from indexer.documents.companies import Companies
from indexer.documents.line_parser import LineParser, ParsedChunk
from indexer.errors import RefusedError
from indexer.indices.adaptive_limit import AdaptiveLimit
from indexer.reporting.dead_letters import DeadLetters
from indexer.reporting.fault_tally import fault_lines
from indexer.reporting.report import OnProgress, ResourceReport, RunStage, ignore_progress
from indexer.reporting.tolerance import excess_dead_letters
from indexer.source.lines import RejectedLine, SourceLine
from indexer.updates.unserved_records import UnservedRecords
from indexer.updates.update_writer import UpdateWriter
from mappings import COMPANY, Resource

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
