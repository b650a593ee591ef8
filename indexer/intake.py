"""From lines to drafts, a chunk at a time: decoding, completion, rules and company of each line."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from indexer.documents import Drafter
from indexer.envelope import Decoder
from indexer.errors import ItemError
from indexer.listing_rules import listing_rules
from indexer.records import complete, shape
from mappings import COMPANY

if TYPE_CHECKING:
    from indexer.companies import Companies
    from indexer.documents import Draft
    from indexer.settings import IndexerSettings
    from indexer.source import Line, Reading
    from mappings import Resource


@dataclass
class Chunk:
    """What became of some lines: drafts and faults, and how far the reading has come."""

    read: int = 0
    rounded: int = 0
    corrected: int = 0
    position: int = 0
    drafts: list[Draft] = field(default_factory=list)
    faults: list[tuple[Line, ItemError]] = field(default_factory=list)


class Intake:
    """Checks and completes the envelopes of one resource."""

    def __init__(self, resource: Resource, companies: Companies) -> None:
        """Compile everything that follows from the declaration."""
        self._decode = Decoder(resource)
        self._shape = shape(resource.stored)
        self._rules = listing_rules(resource)
        self._draft = Drafter(resource)
        self._companies = companies
        self._is_company = resource is COMPANY

    def accept(self, line: Line, chunk: Chunk) -> Draft:
        """Return the draft of a line and count what was mended; raise ItemError for a line that is none."""
        envelope = self._decode(line.data)
        company = self._company(envelope)
        if not envelope.deleted:
            chunk.rounded += self._complete(envelope.record)
            chunk.corrected += sum(rule(envelope) for rule in self._rules)
        return self._draft(line, envelope, company)

    def _complete(self, record: Any) -> int:
        try:
            return complete(record, self._shape)
        except ItemError as error:
            raise ItemError(f"record.{error.field}", error.reason) from None

    def _company(self, envelope: Any) -> str:
        if not self._is_company:
            return self._companies.resolve(envelope)
        record, given, parent = envelope.record, envelope.platform_company_id, envelope.parent_company_id
        self._companies.check(record)
        if given is not None and given not in {record.platform_company_id, record.numeric_id}:
            raise ItemError("platform_company_id", f"is {given!r}, but the record is {record.platform_company_id!r}")
        if parent is not None:
            envelope.parent_company_id = self._companies.key(parent) or parent
        return str(record.platform_company_id)


class Chunks:
    """Cuts a reading into chunks, within the settings' bounds of one bulk request."""

    def __init__(self, intake: Intake, reading: Reading, settings: IndexerSettings) -> None:
        """Nothing is read yet."""
        self._intake = intake
        self._reading = reading
        self._settings = settings

    def next(self) -> Chunk | None:
        """Read the next chunk, None at the end. It may run in a thread: it shares nothing."""
        chunk, size = Chunk(), 0
        for line in islice(self._reading.lines, self._settings.bulk_documents):
            chunk.read += 1
            size += len(line.data)
            try:
                chunk.drafts.append(self._intake.accept(line, chunk))
            except ItemError as error:
                chunk.faults.append((line, error))
            if size >= self._settings.bulk_bytes:
                break
        chunk.position = self._reading.position()
        return chunk if chunk.read else None
