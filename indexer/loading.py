"""Loads one resource into a candidate: chunks are read, stamped and sent, several under way together."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import dropwhile
from typing import TYPE_CHECKING

from indexer.bulk import Write
from indexer.checkpoint import Phase
from indexer.clocks import CarriedStamps, SourceStamps
from indexer.copies import copies
from indexer.errors import ItemError
from indexer.fate import Fate, fate_in_rebuild
from indexer.intake import Chunk, Chunks, Intake
from indexer.scan import look_up

if TYPE_CHECKING:
    from indexer.bulk import Sender, Verdict
    from indexer.checkpoint import Checkpoint, Progress
    from indexer.clocks import Stamper
    from indexer.engine import Engine
    from indexer.gate import Sample
    from indexer.job import Job
    from indexer.scan import Row
    from indexer.source import Line

# A killed run repeats no more than this and what was under way.
_CHECKPOINT_SECONDS = 2.0
# Chunks beyond those in flight: one is being read, one waits for its turn.
_READ_AHEAD = 2
# A checkpoint of some megabytes every other second would be a load of its own.
_SAVED_RECORDS = 50_000


@dataclass
class _Done:
    """A chunk that is acknowledged: what stood in the way of some of its documents, what was there before."""

    chunk: Chunk
    refused: list[tuple[Line, str]] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)


@dataclass
class Loader:
    """One pass over the source into the candidate of `progress`, from the line behind its last acknowledged one.

    `repeated` collects the identifiers that were there before they were written, `copied` those of which the live
    generation knew better.
    """

    engine: Engine
    job: Job
    checkpoint: Checkpoint
    progress: Progress
    sender: Sender
    sample: Sample
    repeated: set[str] = field(default_factory=set)
    copied: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Nothing is read yet."""
        self.repeated.update(self.progress.repeated)
        self.copied.update(self.progress.copied)
        self._stamper: Stamper = CarriedStamps() if self.progress.live else SourceStamps()
        self._waiting: dict[int, _Done] = {}
        self._next = 0
        self._saved = time.monotonic()
        self._saving = asyncio.Lock()

    async def load(self) -> None:
        """Write every envelope."""
        job = self.job
        with job.source.open(job.resource) as reading:
            job.report.bytes_total = reading.total
            behind = dropwhile(lambda line: line.number <= self.progress.line, reading.lines)
            chunks = Chunks(Intake(job.resource, job.companies), replace(reading, lines=behind), self.engine.settings)
            try:
                await self._every(chunks)
            except BaseExceptionGroup as failures:
                raise failures.exceptions[0] from None

    async def _every(self, chunks: Chunks) -> None:
        """Read ahead by a few chunks, counted from the first that is not acknowledged: memory stays flat."""
        room = asyncio.Semaphore(self.engine.settings.bulks_in_flight + _READ_AHEAD)
        number = 0
        async with asyncio.TaskGroup() as under_way:
            await room.acquire()
            while (chunk := await asyncio.to_thread(chunks.next)) is not None:
                under_way.create_task(self._handle(number, chunk, room))
                number += 1
                await room.acquire()

    async def _handle(self, number: int, chunk: Chunk, room: asyncio.Semaphore) -> None:
        self._waiting[number] = await self._written(chunk)
        while (done := self._waiting.pop(self._next, None)) is not None:
            self._next += 1
            self._absorb(done)
            room.release()
        if time.monotonic() - self._saved > _CHECKPOINT_SECONDS:
            await self.save()

    async def _written(self, chunk: Chunk) -> _Done:
        """Write the drafts of a chunk; where the live generation knows better, its document is written instead."""
        known = await self._known([draft.id for draft in chunk.drafts])
        writes, better = list[Write](), list[str]()
        for draft in chunk.drafts:
            row = known.get(draft.id)
            if (outcome := fate_in_rebuild(draft, row)) is Fate.STALE:
                better.append(draft.id)
                continue
            stamp = self._stamper.give(draft, outcome, row)
            writes.append(Write(draft.id, draft.version, draft.source(*stamp), draft))
        copies = await self._copies(better)
        verdict = await self.sender.send([*writes, *copies])
        self._sampled(writes, verdict)
        # One copy stands for all lines of its record in the chunk.
        repeated = [identifier for identifier, lines in Counter(better).items() if lines > 1]
        repeated += [write.id for write in verdict.repeated]
        refused = [(write.draft.line, reason) for write, reason in verdict.refused if write.draft is not None]
        return _Done(chunk, refused, repeated, better)

    def _sampled(self, writes: list[Write], verdict: Verdict) -> None:
        """Offer to the sample what the engine has taken."""
        refused = {write.id for write, _ in verdict.refused}
        for write in writes:
            if write.draft is not None and write.id not in refused:
                self.sample.offer(write.draft)

    async def _known(self, identifiers: list[str]) -> dict[str, Row]:
        if self.progress.live is None or not identifiers:
            return {}
        return await look_up(self.engine, self.progress.live, identifiers)

    async def _copies(self, identifiers: list[str]) -> list[Write]:
        if self.progress.live is None or not identifiers:
            return []
        return await copies(self.engine, self.progress.live, identifiers)

    def _absorb(self, done: _Done) -> None:
        """Count an acknowledged chunk, in the order of the lines."""
        report, chunk, job = self.job.report, done.chunk, self.job
        report.read += chunk.read
        report.rounded += chunk.rounded
        report.corrected += chunk.corrected
        report.bytes_read, report.retries = chunk.position, self.sender.pace.retries
        refused = [(line, ItemError("", reason)) for line, reason in done.refused]
        for line, error in [*chunk.faults, *refused]:
            job.letters.add(line, error.field, error.reason)
        self.repeated.update(done.repeated)
        self.progress.newest = max([self.progress.newest, *(draft.stamped_at for draft in chunk.drafts)])
        self.copied.update(done.copied)
        self.progress.line = chunk.last
        job.refuse_above(at_end=False)
        job.show()

    async def save(self) -> None:
        """Write the checkpoint: everything up to its line is acknowledged.

        Beyond so many exceptional records none is written until all is loaded: a run that is killed repeats more.
        """
        async with self._saving:
            self._saved = time.monotonic()
            progress, letters, report = self.progress, self.job.letters, self.job.report
            is_loading = progress.phase is Phase.LOADING
            if is_loading and len(self.repeated) + len(self.copied) > _SAVED_RECORDS:
                return
            letters.flush()
            progress.repeated = sorted(self.repeated) if is_loading else []
            progress.copied = sorted(self.copied) if is_loading else []
            progress.bad = sorted(letters.numbers)
            progress.counts = report.counted
            await self.checkpoint.write(progress)
