"""The load: the lines of one resource become documents of a candidate, from the last acknowledged line on.

Lines are read in pieces, a few of them ahead, and written concurrently: by this process, or by others
(`indexer.load.processes`). The load ends with a check that the candidate has every accepted record.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import dropwhile
from typing import Any, NamedTuple, TypeAlias

from indexer.bulk import BulkResult, BulkSender, BulkWrite
from indexer.changes.rewrites import compared, fetch_copies
from indexer.changes.stamps import (
    PENDING,
    ChangeKind,
    carried_stamp,
    change_kind_in_rebuild,
    change_of,
    source_stamp,
    split_taken,
)
from indexer.documents.builder import PendingDocument, rejected_document
from indexer.documents.companies import Coverage
from indexer.documents.line_parser import ChunkReader, LineParser, ParsedChunk
from indexer.errors import ObjectionError, RefusedError
from indexer.generations.candidate import Candidate
from indexer.generations.checkpoint import BuildPhase
from indexer.load.duplicates import DuplicateCounts, remove_shard_duplicates, resolve_duplicates
from indexer.names import Names
from indexer.reporting.report import EmptiedField, RoundedField, RunStage
from indexer.scan import fetch_documents, look_up_rows
from indexer.settings import IndexerContext, IndexerSettings
from indexer.source.lines import LineStream, RejectedLine
from mappings import Resource

# A killed run repeats at most this and what was in flight.
_CHECKPOINT_SECONDS = 2.0
# A checkpoint of some megabytes every other second would be a load of its own.
_MAX_CHECKPOINT_RECORDS = 50_000
# Chunks beyond those in flight: one is being read, one waits for a slot.
_CHUNKS_AHEAD = 2


class Pieces(NamedTuple):
    """The remaining lines of a source in pieces, of which several are loaded at once.

    `read` returns the next piece, None at the end, and runs in a thread; `load` writes the documents of a piece.
    `ahead` is how many may be in memory: those in flight and a few beyond.
    """

    read: Callable[[], Any | None]
    load: Callable[[Any], Awaitable[LoadedLines]]
    ahead: int


# How lines are loaded, by this process or by others: opens what remains of the source of a load. Once that is closed,
# no request of the load can arrive any more.
Loading: TypeAlias = "Callable[[Load], AbstractAsyncContextManager[Pieces]]"


async def load(candidate: Candidate, loading: Loading) -> None:
    """Load every line of the source that the candidate lacks, and check what it has then; raise RefusedError."""
    job, progress, lifecycle = candidate.job, candidate.progress, candidate.lifecycle
    if progress.phase is not BuildPhase.LOADING:
        return
    context, report, letters = candidate.context, candidate.job.report, candidate.job.dead_letters
    index, live = candidate.index, progress.live
    job.enter_stage(RunStage.READING)
    run = Load(candidate, candidate.sender(replaces_equal=False))
    try:
        await run.read_all(loading)
    except ObjectionError as objection:
        await candidate.checkpoint.read()  # the version of a write that was cancelled
        if not await run.save():
            raise RefusedError(str(objection)) from None
        raise
    job.enter_stage(RunStage.COMPARING)
    await lifecycle.refresh(index)
    if candidate.ranges.is_routed:
        run.repeated |= await remove_shard_duplicates(context, lifecycle, index, run.sender)
    duplicates = DuplicateCounts()
    if run.repeated:
        duplicates = await resolve_duplicates(candidate, run.repeated)
        await run.write_winners(duplicates.winners)
    copied = len(run.copied - run.repeated) + duplicates.copied
    letters.update_report(report)
    progress.accepted = report.read - report.dead - duplicates.superseded
    await run.verify(duplicates.tied)
    report.indexed = progress.accepted
    if live is not None:
        report.indexed = await lifecycle.count(index, {"range": {"sequence": {"gte": PENDING}}})
    report.merged, report.stale = duplicates.superseded, copied
    report.unchanged = progress.accepted - copied - report.indexed
    report.warnings += duplicates.warnings
    # Those of the records in unreadable lines that no valid line has.
    found = await look_up_rows(context, index, sorted(letters.records))
    progress.kept = sorted(letters.records.keys() - found.keys())
    progress.repeated, progress.copied = [], []
    progress.letters = letters.save()
    await candidate.save(BuildPhase.LOADED)


@dataclass
class Load:
    """One pass over the source into a candidate, from the line after its last acknowledged one.

    `repeated` collects the identifiers that were in the candidate before they were written, `copied` those of which the
    live generation has a newer state, `sample` documents to compare with what is stored.
    """

    candidate: Candidate
    sender: BulkSender
    repeated: set[str] = field(default_factory=set)
    copied: set[str] = field(default_factory=set)
    sample: DocumentSample = field(default_factory=lambda: DocumentSample())  # noqa: PLW0108 - defined below

    def __post_init__(self) -> None:
        self.repeated.update(self.candidate.progress.repeated)
        self.copied.update(self.candidate.progress.copied)
        self._finished: dict[int, LoadedLines] = {}
        self._next = 0
        self._saved_at = time.monotonic()
        self._saving = asyncio.Lock()

    def writer(self, sender: BulkSender) -> ChunkWriter:
        job, live = self.candidate.job, self.candidate.progress.live
        context = self.candidate.context
        names = Names(context, job.built)
        return ChunkWriter(context, job.resource, live, job.companies.coverage, names, sender, self.sample)

    @contextmanager
    def remaining_lines(self) -> Iterator[LineStream]:
        job, line = self.candidate.job, self.candidate.progress.line
        with job.source.open(job.resource) as reading:
            job.report.bytes_total, job.dead_letters.stray = reading.total, reading.stray
            yield replace(reading, lines=dropwhile(lambda item: item.position <= line, reading.lines))

    async def read_all(self, loading: Loading) -> None:
        """Write every envelope that remains.

        A few pieces are read ahead, counted from the first that is not acknowledged, which bounds the memory.
        """
        async with loading(self) as pieces:
            capacity, number = asyncio.Semaphore(pieces.ahead), 0
            try:
                async with asyncio.TaskGroup() as tasks:
                    await capacity.acquire()
                    while (piece := await asyncio.to_thread(pieces.read)) is not None:
                        tasks.create_task(self._handle(number, piece, pieces, capacity))
                        number += 1
                        await capacity.acquire()
            except BaseExceptionGroup as failures:
                raise failures.exceptions[0] from None

    async def _handle(self, number: int, piece: Any, pieces: Pieces, capacity: asyncio.Semaphore) -> None:
        self._finished[number] = await pieces.load(piece)
        while (loaded := self._finished.pop(self._next, None)) is not None:
            self._next += 1
            self._absorb(loaded)
            capacity.release()
        if time.monotonic() - self._saved_at > _CHECKPOINT_SECONDS:
            await self.save()

    def _absorb(self, loaded: LoadedLines) -> None:
        """Count acknowledged lines; pieces come in the order of their lines."""
        job, report, progress = self.candidate.job, self.candidate.job.report, self.candidate.progress
        report.read += loaded.read
        report.add_roundings(loaded.roundings)
        report.corrected += loaded.corrected
        report.zoneless += loaded.zoneless
        report.add_emptied(loaded.emptied)
        report.bytes_read = loaded.position
        report.retries += loaded.retries
        for item in loaded.rejected:
            job.dead_letters.add(item)
        self.repeated.update(loaded.repeated)
        self.copied.update(loaded.copied)
        progress.reported.newest = max(progress.reported.newest, loaded.newest)
        progress.line = loaded.last_line
        # The objection of a forced run is recorded once, at the end.
        if (excess := job.excess_dead_letters(at_end=False)) and not job.is_forced:
            job.refuse(excess)
        job.report_progress()

    async def save(self) -> bool:
        """Write the checkpoint: everything up to its line is acknowledged.

        None is written if there are too many exceptional records; a killed run then repeats more. Returns whether it
        was written.
        """
        async with self._saving:
            self._saved_at = time.monotonic()
            progress, job = self.candidate.progress, self.candidate.job
            if len(self.repeated) + len(self.copied) > _MAX_CHECKPOINT_RECORDS:
                return False
            progress.letters = job.dead_letters.save()
            progress.repeated, progress.copied = sorted(self.repeated), sorted(self.copied)
            progress.reported.counts = job.report.counts
            await self.candidate.checkpoint.write(progress)
            return True

    async def write_winners(self, winners: tuple[PendingDocument, ...]) -> None:
        if winners:
            await self.writer(self.candidate.sender()).write(ParsedChunk(drafts=list(winners)))
            await self.candidate.lifecycle.refresh(self.candidate.index)

    async def verify(self, tied: Collection[str]) -> None:
        """Check that every accepted record is there, and every sampled one byte for byte; raise RefusedError.

        Of the `tied` records, the source has several contents with the same version.
        """
        index, accepted = self.candidate.index, self.candidate.progress.accepted
        comparing = self.sample.find_differences(self.candidate.context, index, tied)
        count, differences = await asyncio.gather(self.candidate.lifecycle.count(index), comparing)
        if count != accepted:
            raise RefusedError(f"{index} has {count} documents, but {accepted} were accepted: run it again.")
        if differences:
            raise RefusedError(f"{index} differs from what was read: {', '.join(differences[:10])}. Run it again.")


@asynccontextmanager
async def load_here(load: Load) -> AsyncIterator[Pieces]:
    """Read and parse chunks in a thread, and write them."""
    job, settings = load.candidate.job, load.candidate.context.settings
    with load.remaining_lines() as remaining:
        reader = ChunkReader(LineParser(job.resource, job.companies, settings), remaining, settings)
        yield Pieces(reader.read, load.writer(load.sender).write, chunks_ahead(settings))


def chunks_ahead(settings: IndexerSettings) -> int:
    return settings.bulks_in_flight + _CHUNKS_AHEAD


@dataclass
class LoadedLines:
    """What became of some consecutive lines, once Elasticsearch has acknowledged all of their documents.

    `rejected` are the lines that are invalid or that Elasticsearch refused, `repeated` the identifiers that were in the
    candidate before they were written, `copied` those of which the live generation has a newer state.
    """

    read: int
    last_line: int
    position: int  # bytes of the source
    newest: int  # the latest `updated_at`, milliseconds since 1970
    corrected: int
    roundings: list[RoundedField]
    rejected: list[RejectedLine]
    emptied: list[EmptiedField] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)
    retries: int = 0  # requests that were sent again
    zoneless: int = 0  # open houses of no known time zone

    @classmethod
    def of(cls, chunk: ParsedChunk) -> LoadedLines:
        newest = max((document.updated_milliseconds for document in chunk.drafts), default=0)
        rounded, rejected = [*chunk.roundings.values()], [*chunk.rejected]
        counts = (newest, chunk.corrected, rounded, rejected, chunk.emptied)
        return cls(chunk.read, chunk.last_line, chunk.position, *counts)

    def append(self, following: LoadedLines) -> None:
        """Add what became of lines that follow; the end stays."""
        self.newest = max(self.newest, following.newest)
        names = ("read", "corrected", "zoneless", "roundings", "rejected", "emptied", "repeated", "copied", "retries")
        for name in names:
            setattr(self, name, getattr(self, name) + getattr(following, name))


@dataclass
class ChunkWriter:
    """Writes the chunks of one resource into a candidate that replaces the generation `live`, None for the first."""

    context: IndexerContext
    resource: Resource
    live: str | None
    coverage: Coverage
    names: Names
    sender: BulkSender
    sample: DocumentSample
    _retries: int = 0

    async def write(self, chunk: ParsedChunk) -> LoadedLines:
        """Write the documents of a chunk, or a copy of the live document where that is newer."""
        is_complete = not any(draft.gaps for draft in chunk.drafts)
        given = chunk.drafts if is_complete else await self.names.fill(chunk.drafts)
        identifiers, loaded = [document.id for document in given], LoadedLines.of(chunk)
        loaded.zoneless = sum(document.zoneless for document in given)
        known = {} if self.live is None else await look_up_rows(self.context, self.live, identifiers)
        writes, stale, stamp_of = list[BulkWrite](), list[str](), carried_stamp if self.live else source_stamp
        drafts, taken = split_taken(given, known, self.coverage)
        changes = [change_of(draft, known.get(draft.id), change_kind_in_rebuild) for draft in drafts]
        if self.live is not None:
            changes = await compared(self.context, self.resource, self.live, changes)
        for document, kind, row in changes:
            if kind is ChangeKind.STALE:
                stale.append(document.id)
                continue
            stamp = stamp_of(document, kind, row)
            writes.append(BulkWrite(document.id, document.version, document.stamped_source(*stamp), document))
        copies = [] if self.live is None else await fetch_copies(self.context, self.resource, self.live, stale)
        result = await self.sender.send([*writes, *copies])
        self._offer_sample(writes, result)
        # One copy represents all lines of its record in the chunk.
        loaded.repeated = [identifier for identifier, lines in Counter(stale).items() if lines > 1]
        loaded.repeated += [write.id for write in result.existing]
        loaded.copied, loaded.retries = stale, self._new_retries()
        loaded.rejected += [
            rejected_document(write.document, reason) for write, reason in result.rejected if write.document is not None
        ]
        field_name = f"record.{self.resource.identifier}"
        loaded.rejected += [rejected_document(document, reason, field_name) for document, reason in taken]
        return loaded

    def _offer_sample(self, writes: list[BulkWrite], result: BulkResult) -> None:
        refused = {write.id for write, _ in result.rejected}
        for write in writes:
            if write.document is not None and write.id not in refused:
                self.sample.offer(write.document)

    def _new_retries(self) -> int:
        """Return how many requests were sent again since the last call."""
        before, self._retries = self._retries, self.sender.limit.retries
        return self._retries - before


_SAMPLE_SIZE = 100
# Spreads the choice over the records without favouring any: an odd constant near 2**64 divided by the golden ratio.
_RANK_MULTIPLIER = 0x9E3779B97F4A7C15


class SampledDocument(NamedTuple):
    """The version and the record of a document that was written; those of the highest ranks are kept."""

    rank: int
    id: str
    version: int
    record: bytes


@dataclass
class DocumentSample:
    """A sample of the written documents, the same for every read of a source, to compare with what is stored."""

    _chosen: list[SampledDocument] = field(default_factory=list)
    _known: set[SampledDocument] = field(default_factory=set)

    def offer(self, document: PendingDocument) -> None:
        # A run that resumes may find other names than the one before.
        if document.record is None or document.gaps:
            return
        rank = -((document.content * _RANK_MULTIPLIER) % 2**64)
        if len(self._chosen) < _SAMPLE_SIZE or rank > self._chosen[0].rank:
            self.merge([SampledDocument(rank, document.id, document.version, document.record)])

    def merge(self, documents: Iterable[SampledDocument]) -> None:
        for document in documents:
            heapq.heappush(self._chosen, document)
            if len(self._chosen) > _SAMPLE_SIZE:
                heapq.heappop(self._chosen)

    def added(self) -> list[SampledDocument]:
        """Return the chosen documents that were not chosen at the last call."""
        known, self._known = self._known, set(self._chosen)
        return [document for document in self._chosen if document not in known]

    async def find_differences(self, context: IndexerContext, index: str, tied: Collection[str] = ()) -> list[str]:
        """Return the identifiers whose stored record differs from what was sent, unless its version is newer.

        Of the `tied` records, another content with the same version may be stored.
        """
        chosen = [document.id for document in self._chosen]
        stored = {document.id: document for document in await fetch_documents(context, index, chosen)}
        return sorted(
            identifier
            for _, identifier, version, record in self._chosen
            if (document := stored.get(identifier)) is None
            or document.version < version
            or (document.version == version and record not in document.source and identifier not in tied)
        )
