"""Identifiers that a source contains more than once: versions of one record, or a fault where the companies differ.

Only sources with duplicates need this second pass: bulk responses report identifiers that existed before. If a source
names a record with several companies, a loaded candidate has it in several shards. Within a shard, Elasticsearch
reports a record that is written twice; between shards nothing does, so the identifiers are compared bucket by bucket
(`mappings.stored_document`).
"""

import asyncio
import math
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from indexer.bulk import BulkSender, delete_documents
from indexer.changes.stamps import at_live_time
from indexer.documents.builder import PendingDocument, rejected_document
from indexer.documents.envelope import identifier_decoder
from indexer.documents.line_parser import LineParser, ParsedChunk
from indexer.generations.candidate import BuildJob, Candidate
from indexer.generations.lifecycle import GenerationLifecycle
from indexer.names import Names
from indexer.reporting.report import listed
from indexer.scan import IndexRow, look_up_rows, scan_rows
from indexer.settings import IndexerContext
from indexer.source.lines import SourceLine
from mappings.stored_document import BUCKETS

_MAX_LINES_SHOWN = 4
_MAX_IDENTIFIERS_SHOWN = 3
_LINES_AT_ONCE = 500


class DuplicateCounts(NamedTuple):
    """How many envelopes are superseded by a newer one of the same source, and warnings that name them.

    `copied` counts the records whose indexed document is none of the envelopes but a copy of the live one. `tied` are
    the records of which several contents have the indexed version, `winners` those with a content that ranks above the
    indexed one.
    """

    superseded: int = 0
    copied: int = 0
    warnings: tuple[str, ...] = ()
    tied: frozenset[str] = frozenset()
    winners: tuple[PendingDocument, ...] = ()


class SharedIdentifiers:
    """The lines of each identifier: their number, and the first few."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lines: dict[str, list[SourceLine]] = {}

    def add(self, identifier: str, line: SourceLine) -> None:
        """Count a line; its bytes are not kept."""
        self._counts[identifier] += 1
        lines = self._lines.setdefault(identifier, [])
        if len(lines) < _MAX_LINES_SHOWN:
            lines.append(line._replace(data=b""))

    @property
    def superseded(self) -> int:
        """How many lines share their identifier with another one that is kept."""
        return self._counts.total() - len(self._counts)

    @property
    def identifiers(self) -> set[str]:
        return set(self._counts)

    def warnings(self) -> tuple[str, ...]:
        """Return a sentence without a full stop that names the identifiers with the most lines, if any are shared."""
        if not self.superseded:
            return ()
        shared = [(identifier, count) for identifier, count in self._counts.most_common() if count > 1]
        examples = [
            f"{count:,} lines share the identifier {identifier}: {self._places(identifier, count)}"
            for identifier, count in shared[:_MAX_IDENTIFIERS_SHOWN]
        ]
        more = f"; and {len(shared) - len(examples):,} more identifiers" if len(shared) > len(examples) else ""
        return (f"{'; '.join(examples)}{more}; the newest line of each is kept",)

    def _places(self, identifier: str, count: int) -> str:
        lines = self._lines[identifier]
        if len({line.file for line in lines}) == 1:
            return f"lines {listed([str(line.number) for line in lines], count)}"
        return listed([f"{line.file}:{line.number}" for line in lines], count)


async def resolve_duplicates(candidate: Candidate, repeated: set[str]) -> DuplicateCounts:
    """Classify every envelope of the repeated records; reject those of another company than the newest one's.

    The index must be refreshed. It holds the newest of each, since every write carries its version; of two contents
    with the same version, it holds the one that arrived first, and `winners` must be written over it.
    """
    # Times were checked by the first pass; a clock that was set back since must not reject what is indexed.
    context, job = candidate.context, candidate.job
    settings = replace(context.settings, future_seconds=math.inf)
    held = await look_up_rows(replace(context, settings=settings), candidate.index, sorted(repeated))
    parser, names = LineParser(job.resource, job.companies, settings), Names(context, job.built)
    lines = _RepeatedLines(job, held)
    with closing(_suspects(job, held, parser)) as suspects:
        while batch := await asyncio.to_thread(lambda: [*islice(suspects, _LINES_AT_ONCE)]):
            for document in await names.fill(batch):
                lines.add(document)
    return lines.counts()


@dataclass
class _RepeatedLines:
    """The lines of repeated records, of which the candidate has the states `held`."""

    job: BuildJob
    held: Mapping[str, IndexRow]
    shared: SharedIdentifiers = field(default_factory=SharedIdentifiers)
    indexed: set[str] = field(default_factory=set)
    tied: set[str] = field(default_factory=set)
    winners: dict[str, PendingDocument] = field(default_factory=dict)

    def add(self, given: PendingDocument) -> None:
        held, line = self.held[given.id], given.line
        document = at_live_time(given, held)
        if document.company != held.company:
            reason = f"{document.id} belongs to the company {held.company}: no two companies may share an identifier"
            self.job.dead_letters.add(rejected_document(document, reason, f"record.{self.job.resource.identifier}"))
            return
        self.shared.add(document.id, line)
        if document.version == held.version:
            self.indexed.add(document.id)
            self._settle(document, held)

    def _settle(self, document: PendingDocument, held: IndexRow) -> None:
        """Compare a document with the indexed one of the same version: the greater content wins, whatever the order."""
        if document.content != held.content:
            self.tied.add(document.id)
        winner = self.winners.get(document.id)
        if document.content > (held.content if winner is None else winner.content):
            self.winners[document.id] = document

    def counts(self) -> DuplicateCounts:
        copied, warnings = len(self.shared.identifiers - self.indexed), self.shared.warnings()
        winners = tuple(self.winners.values())
        return DuplicateCounts(self.shared.superseded, copied, warnings, frozenset(self.tied), winners)


def _suspects(
    job: BuildJob, held: Mapping[str, IndexRow], parser: LineParser
) -> Generator[PendingDocument, None, None]:
    """Yield the accepted lines of the given records; of the others only the identifier is decoded."""
    decode = identifier_decoder(job.resource)
    with job.source.open(job.resource) as reading:
        for line in reading.accepted_lines:
            if line.position not in job.dead_letters.line_numbers and decode(line.data) in held:
                yield parser.parse(line, ParsedChunk())


_ROWS_AT_ONCE = 5_000


async def remove_shard_duplicates(
    context: IndexerContext, lifecycle: GenerationLifecycle, index: str, sender: BulkSender
) -> set[str]:
    """Delete all but the newest document of each record, and return the identifiers of those that had several.

    The index must be refreshed, and is again afterwards.
    """
    found = set[str]()
    width = max(1, BUCKETS * _ROWS_AT_ONCE // max(1, await lifecycle.count(index)))
    for first in range(0, BUCKETS, width):
        older = older_copies(await _rows(context, index, first, width))
        await delete_documents(sender, older)
        found.update(row.id for row in older)
    if found:
        await lifecycle.refresh(index)
    return found


async def _rows(context: IndexerContext, index: str, first: int, width: int) -> list[IndexRow]:
    query = {"range": {"bucket": {"gte": first, "lt": first + width}}}
    return [row async for page in scan_rows(context, index, query=query) for row in page]


def older_copies(rows: list[IndexRow]) -> list[IndexRow]:
    """Return all rows but the newest of each record; of equal versions that with the greater content is newer."""
    newest: dict[str, IndexRow] = {}
    older: list[IndexRow] = []
    for row in rows:
        other = newest.setdefault(row.id, row)
        if other is not row:
            low, high = sorted((other, row), key=lambda copy: (copy.stored_version, copy.content))
            newest[row.id] = high
            older.append(low)
    return older
