"""Loads one resource into a candidate: chunks are read, stamped and sent, several concurrently."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import dropwhile
from typing import TYPE_CHECKING

from indexer.build.build_checkpoint import BuildPhase
from indexer.changes.change_kind import ChangeKind, at_live_time, change_kind_in_rebuild
from indexer.changes.document_copies import fetch_copies
from indexer.changes.stamps import CarriedStamps, SourceStamps
from indexer.changes.taken_identifiers import split_taken
from indexer.documents.builder import rejected_document
from indexer.documents.line_parser import ChunkReader, LineParser, ParsedChunk
from indexer.indices.bulk import BulkWrite
from indexer.indices.scan import look_up_rows

if TYPE_CHECKING:
    from indexer.build.build_checkpoint import BuildCheckpoint, BuildProgress
    from indexer.build.build_job import BuildJob
    from indexer.build.swap_gate import DocumentSample
    from indexer.changes.stamps import Stamper
    from indexer.context import IndexerContext
    from indexer.indices.bulk import BulkResult, BulkSender
    from indexer.source.lines import RejectedLine

# A killed run repeats at most this and what was in flight.
_CHECKPOINT_SECONDS = 2.0
# Chunks beyond those in flight: one is being read, one waits for a slot.
_CHUNKS_AHEAD = 2
# A checkpoint of some megabytes every other second would be a load of its own.
_MAX_CHECKPOINT_RECORDS = 50_000


@dataclass
class _LoadedChunk:
    """An acknowledged chunk: the documents that Elasticsearch rejected, and the records that existed before."""

    chunk: ParsedChunk
    refused: list[RejectedLine] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)


@dataclass
class CandidateLoader:
    """One pass over the source into the candidate of `progress`, from the line after its last acknowledged one.

    `repeated` collects the identifiers that were in the candidate before they were written, `copied` those of which the
    live generation has a newer state.
    """

    context: IndexerContext
    job: BuildJob
    checkpoint: BuildCheckpoint
    progress: BuildProgress
    sender: BulkSender
    sample: DocumentSample
    repeated: set[str] = field(default_factory=set)
    copied: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.repeated.update(self.progress.repeated)
        self.copied.update(self.progress.copied)
        self._stamper: Stamper = CarriedStamps() if self.progress.live else SourceStamps()
        self._finished: dict[int, _LoadedChunk] = {}
        self._next = 0
        self._saved_at = time.monotonic()
        self._saving = asyncio.Lock()

    async def load(self) -> None:
        """Write every envelope of the source."""
        job = self.job
        with job.source.open(job.resource) as reading:
            job.report.bytes_total, self.progress.stray = reading.total, reading.stray
            remaining = dropwhile(lambda line: line.position <= self.progress.line, reading.lines)
            settings = self.context.settings
            parser = LineParser(job.resource, job.companies, settings)
            chunks = ChunkReader(parser, replace(reading, lines=remaining), settings)
            try:
                await self._load_chunks(chunks)
            except BaseExceptionGroup as failures:
                raise failures.exceptions[0] from None

    async def _load_chunks(self, chunks: ChunkReader) -> None:
        """Read ahead a few chunks, counted from the first that is not acknowledged, which bounds the memory."""
        capacity = asyncio.Semaphore(self.context.settings.bulks_in_flight + _CHUNKS_AHEAD)
        number = 0
        async with asyncio.TaskGroup() as tasks:
            await capacity.acquire()
            while (chunk := await asyncio.to_thread(chunks.read)) is not None:
                tasks.create_task(self._handle(number, chunk, capacity))
                number += 1
                await capacity.acquire()

    async def _handle(self, number: int, chunk: ParsedChunk, capacity: asyncio.Semaphore) -> None:
        self._finished[number] = await self._write_chunk(chunk)
        while (loaded := self._finished.pop(self._next, None)) is not None:
            self._next += 1
            self._absorb(loaded)
            capacity.release()
        if time.monotonic() - self._saved_at > _CHECKPOINT_SECONDS:
            await self.save_checkpoint()

    async def _write_chunk(self, chunk: ParsedChunk) -> _LoadedChunk:
        """Write the documents of a chunk, or a copy of the live document where that is newer."""
        live = self.progress.live
        identifiers = [document.id for document in chunk.drafts]
        known = {} if live is None else await look_up_rows(self.context, live, identifiers)
        writes, stale = list[BulkWrite](), list[str]()
        drafts, taken = split_taken(chunk.drafts, known, self.job.companies.coverage)
        for draft in drafts:
            row = known.get(draft.id)
            document = at_live_time(draft, row)
            if (kind := change_kind_in_rebuild(document, row)) is ChangeKind.STALE:
                stale.append(document.id)
                continue
            stamp = self._stamper.stamp_for(document, kind, row)
            writes.append(BulkWrite(document.id, document.version, document.stamped_source(*stamp), document))
        copies = [] if live is None else await fetch_copies(self.context, self.job.resource, live, stale)
        result = await self.sender.send([*writes, *copies])
        self._offer_sample(writes, result)
        # One copy represents all lines of its record in the chunk.
        repeated = [identifier for identifier, lines in Counter(stale).items() if lines > 1]
        repeated += [write.id for write in result.existing]
        refused = [
            rejected_document(write.document, reason) for write, reason in result.rejected if write.document is not None
        ]
        field_name = f"record.{self.job.resource.identifier}"
        refused += [rejected_document(document, reason, field_name) for document, reason in taken]
        return _LoadedChunk(chunk, refused, repeated, stale)

    def _offer_sample(self, writes: list[BulkWrite], result: BulkResult) -> None:
        """Offer the documents that Elasticsearch accepted to the sample."""
        refused = {write.id for write, _ in result.rejected}
        for write in writes:
            if write.document is not None and write.id not in refused:
                self.sample.offer(write.document)

    def _absorb(self, loaded: _LoadedChunk) -> None:
        """Count an acknowledged chunk; chunks come in the order of their lines."""
        report, chunk, job = self.job.report, loaded.chunk, self.job
        report.read += chunk.read
        report.add_roundings(chunk.roundings.values())
        report.corrected += chunk.corrected
        report.bytes_read, report.retries = chunk.position, self.sender.limit.retries
        for item in [*chunk.rejected, *loaded.refused]:
            job.dead_letters.add(item)
        self.repeated.update(loaded.repeated)
        times = (document.updated_milliseconds for document in chunk.drafts)
        self.progress.newest = max([self.progress.newest, *times])
        self.copied.update(loaded.copied)
        self.progress.line = chunk.last_line
        job.check_dead_letters(at_end=False)
        job.report_progress()

    async def save_checkpoint(self) -> bool:
        """Write the checkpoint: everything up to its line is acknowledged.

        While loading, none is written if there are too many exceptional records; a killed run then repeats more.
        Returns whether it was written.
        """
        async with self._saving:
            self._saved_at = time.monotonic()
            progress, dead_letters, report = self.progress, self.job.dead_letters, self.job.report
            is_loading = progress.phase is BuildPhase.LOADING
            if is_loading and len(self.repeated) + len(self.copied) > _MAX_CHECKPOINT_RECORDS:
                return False
            dead_letters.flush()
            progress.repeated = sorted(self.repeated) if is_loading else []
            progress.copied = sorted(self.copied) if is_loading else []
            progress.bad = sorted(dead_letters.line_numbers)
            progress.unreadable = sorted(dead_letters.records)
            progress.unidentified = sorted(dead_letters.unidentified)
            progress.counts = report.resumable_counts
            await self.checkpoint.write(progress)
            return True
