"""Loads the lines of one resource into a candidate, in this process or in those of a pool.

This process alone reads and parses in a thread, and writes concurrently. With a pool it divides the source into ranges.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import dropwhile
from typing import Protocol, TypeVar

from indexer.bulk import BulkSender
from indexer.documents.line_parser import ChunkReader, LineParser, ParsedChunk
from indexer.generations.checkpoint import BuildCheckpoint, BuildJob, BuildPhase, BuildProgress
from indexer.generations.gates import DocumentSample
from indexer.load.chunk_writer import ChunkWriter, LoadedLines
from indexer.load.processes import LoaderPool, LoadOrder
from indexer.lock import wait_for_bulk_tasks
from indexer.settings import IndexerContext, IndexerSettings
from indexer.source.files import open_raw
from indexer.source.line_ranges import FileRanges, LineBatches, LineRange, divisible_file, range_size
from indexer.source.lines import LineStream

# A killed run repeats at most this and what was in flight.
_CHECKPOINT_SECONDS = 2.0
# A checkpoint of some megabytes every other second would be a load of its own.
_MAX_CHECKPOINT_RECORDS = 50_000

Lines = TypeVar("Lines")


class LoadWork(Protocol[Lines]):
    """Reads the lines of a source in pieces and writes the documents of a piece; several at once."""

    @property
    def pieces_ahead(self) -> int:
        """How many pieces may be in memory: those in flight and a few beyond."""

    def read(self) -> Lines | None:
        """Return the next piece, None at the end. Runs in a thread."""

    async def load(self, lines: Lines) -> LoadedLines:
        """Write the documents of a piece."""


@dataclass
class CandidateLoader:
    """One pass over the source into the candidate of `progress`, from the line after its last acknowledged one.

    `repeated` collects the identifiers that were in the candidate before they were written, `copied` those of which the
    live generation has a newer state.
    """

    job: BuildJob
    checkpoint: BuildCheckpoint
    progress: BuildProgress
    repeated: set[str] = field(default_factory=set)
    copied: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.repeated.update(self.progress.repeated)
        self.copied.update(self.progress.copied)
        self._finished: dict[int, LoadedLines] = {}
        self._next = 0
        self._saved_at = time.monotonic()
        self._saving = asyncio.Lock()

    async def load(self, work: LoadWork[Lines]) -> None:
        """Write every envelope that the work reads."""
        try:
            await self._load_pieces(work)
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _load_pieces(self, work: LoadWork[Lines]) -> None:
        """Read ahead a few pieces, counted from the first that is not acknowledged, which bounds the memory."""
        capacity = asyncio.Semaphore(work.pieces_ahead)
        number = 0
        async with asyncio.TaskGroup() as tasks:
            await capacity.acquire()
            while (lines := await asyncio.to_thread(work.read)) is not None:
                tasks.create_task(self._handle(number, lines, work, capacity))
                number += 1
                await capacity.acquire()

    async def _handle(self, number: int, lines: Lines, work: LoadWork[Lines], capacity: asyncio.Semaphore) -> None:
        self._finished[number] = await work.load(lines)
        while (loaded := self._finished.pop(self._next, None)) is not None:
            self._next += 1
            self._absorb(loaded)
            capacity.release()
        if time.monotonic() - self._saved_at > _CHECKPOINT_SECONDS:
            await self.save_checkpoint()

    def _absorb(self, loaded: LoadedLines) -> None:
        """Count acknowledged lines; pieces come in the order of their lines."""
        report, job = self.job.report, self.job
        report.read += loaded.read
        report.add_roundings(loaded.roundings)
        report.corrected += loaded.corrected
        report.bytes_read = loaded.position
        report.retries += loaded.retries
        for item in loaded.rejected:
            job.dead_letters.add(item)
        self.repeated.update(loaded.repeated)
        self.copied.update(loaded.copied)
        self.progress.newest = max(self.progress.newest, loaded.newest)
        self.progress.line = loaded.last_line
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


# Chunks beyond those in flight: one is being read, one waits for a slot.
_CHUNKS_AHEAD = 2


@contextmanager
def remaining_lines(job: BuildJob, progress: BuildProgress) -> Iterator[LineStream]:
    """Open the lines of a build's resource after the last acknowledged one."""
    with job.source.open(job.resource) as reading:
        job.report.bytes_total, progress.stray = reading.total, reading.stray
        yield replace(reading, lines=dropwhile(lambda line: line.position <= progress.line, reading.lines))


@dataclass
class LocalLoad:
    """Reads chunks and writes them."""

    chunks: ChunkReader
    writer: ChunkWriter
    pieces_ahead: int

    @classmethod
    @contextmanager
    def opened(cls, job: BuildJob, progress: BuildProgress, writer: ChunkWriter) -> Iterator[LocalLoad]:
        """Open what remains of the resource."""
        settings = writer.context.settings
        with remaining_lines(job, progress) as remaining:
            chunks = ChunkReader(LineParser(job.resource, job.companies, settings), remaining, settings)
            yield cls(chunks, writer, chunks_ahead(settings))

    def read(self) -> ParsedChunk | None:
        """Return the next chunk, None at the end. Runs in a thread."""
        return self.chunks.read()

    async def load(self, lines: ParsedChunk) -> LoadedLines:
        """Write the documents of a chunk."""
        return await self.writer.write(lines)


def chunks_ahead(settings: IndexerSettings) -> int:
    """Return how many chunks a process may have in memory."""
    return settings.bulks_in_flight + _CHUNKS_AHEAD


# Two that each process has, and one that is ready for it.
_RANGES_PER_PROCESS = 3


@dataclass
class ParallelLoad:
    """Reads ranges and lets the processes of a pool load them."""

    lines: FileRanges | LineBatches
    pool: LoaderPool
    order: LoadOrder
    sample: DocumentSample

    @property
    def pieces_ahead(self) -> int:
        """How many ranges may be waiting or in flight."""
        return _RANGES_PER_PROCESS * self.pool.processes

    def read(self) -> LineRange | None:
        """Return the next range, None at the end. Runs in a thread."""
        return self.lines.read()

    async def load(self, lines: LineRange) -> LoadedLines:
        """Let a process load a range."""
        outcome = await self.pool.load(self.order, lines)
        self.sample.merge(outcome.sample)
        return outcome.loaded


@contextmanager
def open_ranges(
    job: BuildJob, progress: BuildProgress, processes: int, settings: IndexerSettings
) -> Iterator[FileRanges | LineBatches]:
    """Open what remains of a build's resource in ranges: parts of its file, or lines that only one process can read."""
    path = divisible_file(job.source, job.resource)
    if path is None:
        with remaining_lines(job, progress) as remaining:
            yield LineBatches(remaining, settings)
        return
    job.report.bytes_total, progress.stray = path.stat().st_size, 0
    with open_raw(path) as raw:
        yield FileRanges(path, raw, range_size(job.report.bytes_total, processes), progress.line)


async def load_lines(
    context: IndexerContext, loader: CandidateLoader, sender: BulkSender, sample: DocumentSample, pool: LoaderPool
) -> None:
    """Load the lines that remain, with `sender`, or with the processes of a pool; `sample` is offered the documents."""
    job, progress, settings = loader.job, loader.progress, context.settings
    if pool.processes == 1:
        writer = ChunkWriter(context, job.resource, progress.live, job.companies.coverage, sender, sample)
        with LocalLoad.opened(job, progress, writer) as work:
            await loader.load(work)
        return
    order = LoadOrder(job.resource, job.companies, progress.live, sender.index, sender.opaque_id, sender.ranges)
    pool.exits.clear()
    with open_ranges(job, progress, pool.processes, settings) as lines:
        await loader.load(ParallelLoad(lines, pool, order, sample))
    if exits := pool.exits:
        job.report.warnings.append(
            f"processes that loaded lines ended {len(exits)} times, the last one with {exits[-1]}; others have "
            "loaded these lines"
        )
        # No request of a process that ended may arrive later.
        await wait_for_bulk_tasks(context.client, sender.opaque_id, settings.retry_seconds)
