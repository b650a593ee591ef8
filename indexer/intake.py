"""From lines to drafts, a chunk at a time: decoding, completion, rules and company of each line."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from indexer.documents import Drafter
from indexer.envelope import NOT_SETTLED, Decoder, settled_decoder
from indexer.errors import ItemError
from indexer.listing_rules import listing_rules
from indexer.records import Completion
from indexer.source import Fault
from mappings import COMPANY

if TYPE_CHECKING:
    from collections.abc import Callable

    from indexer.companies import Companies
    from indexer.documents import Draft
    from indexer.settings import IndexerSettings
    from indexer.source import Line, Reading
    from mappings import Resource

_LONGEST_PAUSE = 63  # lines


@dataclass
class Chunk:
    """What became of some lines: drafts and faults, and how far the reading has come."""

    read: int = 0
    rounded: int = 0
    corrected: int = 0
    position: int = 0
    last: int = 0  # the number of its last line
    drafts: list[Draft] = field(default_factory=list)
    faults: list[tuple[Line, ItemError]] = field(default_factory=list)


class Intake:
    """Checks and completes the envelopes of one resource."""

    def __init__(self, resource: Resource, companies: Companies) -> None:
        """Compile everything that follows from the declaration."""
        self._decode_settled = settled_decoder(resource)
        self._decode = Decoder(resource)
        self._completion = Completion(resource.stored)
        self._apply_rules = listing_rules(resource)
        self._draft = Drafter(resource)
        self._untried = 0  # lines until the settled decoder is tried again
        self._pause = 0  # lines without it after its next failure
        self._companies = companies
        self._is_company = resource is COMPANY

    def accept(self, line: Line, chunk: Chunk) -> Draft:
        """Return the draft of a line and count what was mended; raise ItemError for a line that is none."""
        envelope, complete = self._read(line.data)
        company = self._company(envelope)
        if not envelope.deleted:
            chunk.rounded += complete(envelope.record)
            chunk.corrected += self._apply_rules(envelope)
        return self._draft(line, envelope, company)

    def take(self, item: Line | Fault, chunk: Chunk) -> None:
        """Put the draft of a line into a chunk, or what is wrong with it."""
        if isinstance(item, Fault):
            chunk.faults.append((item.line, item.error))
            return
        try:
            chunk.drafts.append(self.accept(item, chunk))
        except ItemError as error:
            chunk.faults.append((item, error))

    def _read(self, data: bytes) -> tuple[Any, Callable[[Any], int]]:
        """Return an envelope and what completes its record; which of the two ways was taken does not show in either.

        A source whose lines are seldom settled is tried less and less often, down to one line in 64: a try that fails
        at the end of a line has cost as much as reading it.
        """
        if self._untried:
            self._untried -= 1
        else:
            try:
                envelope = self._decode_settled(data)
            except NOT_SETTLED:
                self._untried, self._pause = self._pause, min(2 * self._pause + 1, _LONGEST_PAUSE)
            else:
                self._pause = 0
                return envelope, self._completion.settled
        return self._decode(data), self._completion.any

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
        for item in islice(self._reading.lines, self._settings.bulk_documents):
            chunk.read += 1
            chunk.last = item.number
            size += len(item.data)
            self._intake.take(item, chunk)
            if size >= self._settings.bulk_bytes:
                break
        chunk.position = self._reading.position()
        return chunk if chunk.read else None
