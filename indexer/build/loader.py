"""Loads one resource into a candidate: its lines are read in order, and written by several tasks or processes."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from indexer.build.build_checkpoint import BuildCheckpoint, BuildPhase, BuildProgress
from indexer.build.build_job import BuildJob
from indexer.build.chunk_writer import LoadedLines

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
