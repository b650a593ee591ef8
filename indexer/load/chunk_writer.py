"""Writes the documents of a chunk into a candidate, each under its stamp, or copies of newer live documents."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from indexer.bulk import BulkResult, BulkSender, BulkWrite
from indexer.changes.rewrites import fetch_copies
from indexer.changes.stamps import (
    CarriedStamps,
    ChangeKind,
    SourceStamps,
    Stamper,
    at_live_time,
    change_kind_in_rebuild,
    split_taken,
)
from indexer.documents.builder import rejected_document
from indexer.documents.companies import Coverage
from indexer.documents.line_parser import ParsedChunk
from indexer.generations.gates import DocumentSample
from indexer.reporting.report import RoundedField
from indexer.scan import look_up_rows
from indexer.settings import IndexerContext
from indexer.source.lines import RejectedLine
from mappings import Resource


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
    repeated: list[str] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)
    retries: int = 0  # requests that were sent again

    @classmethod
    def none(cls, last_line: int, position: int) -> LoadedLines:
        """Return that nothing was read up to a line."""
        return cls(0, last_line, position, 0, 0, [], [])

    @classmethod
    def of(cls, chunk: ParsedChunk) -> LoadedLines:
        """Return what is known of a chunk before it is written."""
        newest = max((document.updated_milliseconds for document in chunk.drafts), default=0)
        rounded, rejected = [*chunk.roundings.values()], [*chunk.rejected]
        return cls(chunk.read, chunk.last_line, chunk.position, newest, chunk.corrected, rounded, rejected)

    def append(self, following: LoadedLines) -> None:
        """Add what became of lines that follow; the end stays."""
        self.newest = max(self.newest, following.newest)
        for name in ("read", "corrected", "roundings", "rejected", "repeated", "copied", "retries"):
            setattr(self, name, getattr(self, name) + getattr(following, name))


@dataclass
class ChunkWriter:
    """Writes the chunks of one resource into a candidate that replaces the generation `live`, None for the first."""

    context: IndexerContext
    resource: Resource
    live: str | None
    coverage: Coverage
    sender: BulkSender
    sample: DocumentSample
    _retries: int = 0

    def __post_init__(self) -> None:
        self._stamper: Stamper = CarriedStamps() if self.live else SourceStamps()

    async def write(self, chunk: ParsedChunk) -> LoadedLines:
        """Write the documents of a chunk, or a copy of the live document where that is newer."""
        identifiers, loaded = [document.id for document in chunk.drafts], LoadedLines.of(chunk)
        known = {} if self.live is None else await look_up_rows(self.context, self.live, identifiers)
        writes, stale = list[BulkWrite](), list[str]()
        drafts, taken = split_taken(chunk.drafts, known, self.coverage)
        for draft in drafts:
            row = known.get(draft.id)
            document = at_live_time(draft, row)
            if (kind := change_kind_in_rebuild(document, row)) is ChangeKind.STALE:
                stale.append(document.id)
                continue
            stamp = self._stamper.stamp_for(document, kind, row)
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
        """Offer the documents that Elasticsearch accepted to the sample."""
        refused = {write.id for write, _ in result.rejected}
        for write in writes:
            if write.document is not None and write.id not in refused:
                self.sample.offer(write.document)

    def _new_retries(self) -> int:
        """Return how many requests were sent again since the last call."""
        before, self._retries = self._retries, self.sender.limit.retries
        return self._retries - before
