"""The two sides of a verification: what a source would store, and what an index has stored, in the same terms."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from indexer import scan
from indexer.intake import Chunks, Intake
from indexer.source import Line
from mappings.digest import coarse_bucket
from mappings.document import MARK, Reason, is_departure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence

    from indexer.companies import Companies
    from indexer.documents import Draft
    from indexer.engine import Engine
    from indexer.errors import ItemError
    from indexer.settings import IndexerSettings
    from indexer.source import Reading, Source
    from mappings import Resource

    Buckets = Collection[int]

# Whole documents that are looked at together.
_WHOLE = 500
_EVERY: dict[str, Any] = {"match_all": {}}


class Entry(msgspec.Struct, gc=False, frozen=True):
    """One record on one side. `stored` is a 64-bit hash of the stored bytes, 0 where these are not compared."""

    id: str
    version: int
    content: int
    deleted: bool
    stored: int


class Side(Protocol):
    """Anything that can be compared. It may say a record several times: its highest version counts."""

    def entries(self, wanted: Buckets | None = None) -> AsyncIterator[list[Entry]]:
        """Yield every entry, or those of some buckets of `mappings.digest`."""


@dataclass(frozen=True)
class SourceSide:
    """What the envelopes of a source come to, by the same checks as in a build; `on_fault` hears of those that fail."""

    source: Source
    resource: Resource
    companies: Companies
    settings: IndexerSettings
    is_full: bool
    on_fault: Callable[[Line, ItemError], None]

    async def entries(self, wanted: Buckets | None = None) -> AsyncIterator[list[Entry]]:
        """Yield the entries of every line; faults are told in a pass over all buckets only."""
        with self.source.open(self.resource) as reading:
            chosen = reading if wanted is None else _among(reading, self.resource, wanted)
            chunks = Chunks(Intake(self.resource, self.companies), chosen, self.settings)
            while (found := await asyncio.to_thread(self._next, chunks, is_told=wanted is None)) is not None:
                yield found

    def _next(self, chunks: Chunks, *, is_told: bool) -> list[Entry] | None:
        chunk = chunks.next()
        if chunk is None:
            return None
        for line, error in chunk.faults if is_told else ():
            self.on_fault(line, error)
        return [self._entry(draft) for draft in chunk.drafts]

    def _entry(self, draft: Draft) -> Entry:
        stored = _hash(draft.record, 0) if self.is_full else 0
        return Entry(draft.id, draft.version, draft.content, draft.record is None, stored)


def _among(reading: Reading, resource: Resource, wanted: Buckets) -> Reading:
    """Skip the lines of records in other buckets, at the cost of decoding the identifier alone."""
    record = msgspec.defstruct("Identified", [("identifier", str)], rename={"identifier": resource.identifier})
    decode = msgspec.json.Decoder(msgspec.defstruct("IdentifiedEnvelope", [("record", record)])).decode

    def is_wanted(line: object) -> bool:
        try:
            identified: Any = decode(line.data) if isinstance(line, Line) else None
            return identified is not None and coarse_bucket(identified.record.identifier) in wanted
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return False  # a fault, told in the pass over all buckets

    return replace(reading, lines=filter(is_wanted, reading.lines))


@dataclass(frozen=True)
class IndexSide:
    """What an index holds."""

    engine: Engine
    index: str
    is_full: bool

    async def entries(self, wanted: Buckets | None = None) -> AsyncIterator[list[Entry]]:
        """Yield the entries of an index, each record once unless it changes meanwhile."""
        if self.is_full and wanted is None:
            async with aclosing(scan.stored(self.engine, self.index, query=_EVERY, order="feed_key")) as documents:
                async for page in documents:
                    yield [entry for document in page if (entry := _whole(document)) is not None]
            return
        async with aclosing(scan.rows(self.engine, self.index)) as rows:
            async for rows_of_page in rows:
                told = filter(_is_told, rows_of_page)
                chosen = [row for row in told if wanted is None or coarse_bucket(row.id) in wanted]
                async for some in self._completed(chosen):
                    yield some

    async def _completed(self, rows: list[scan.Row]) -> AsyncIterator[list[Entry]]:
        if not self.is_full:
            yield [_entry(row) for row in rows]
            return
        for at in range(0, len(rows), _WHOLE):
            yield list((await self.look_up([row.id for row in rows[at : at + _WHOLE]])).values())

    async def look_up(self, identifiers: Sequence[str]) -> dict[str, Entry]:
        """Return what is visible of some records."""
        found: Iterable[Entry]
        if self.is_full:
            documents = await scan.fetch(self.engine, self.index, identifiers)
            found = [entry for document in documents if (entry := _whole(document)) is not None]
        else:
            rows = await scan.look_up(self.engine, self.index, identifiers)
            found = [_entry(row) for row in rows.values() if _is_told(row)]
        return {entry.id: entry for entry in found}

    async def alive(self, identifiers: Sequence[str]) -> list[str]:
        """Return those of some records that the index serves."""
        found = await scan.look_up(self.engine, self.index, identifiers)
        return [row.id for row in found.values() if not row.deleted]


def _is_told(row: scan.Row) -> bool:
    """A tombstone of what only a source lacked tells of no deletion: to whoever has the record, it is missing.

    A departure is no record.
    """
    return row.reason != Reason.VANISHED and not is_departure(row.id)


def _entry(row: scan.Row) -> Entry:
    return Entry(row.id, row.version, row.content, row.deleted, 0)


class _Own(msgspec.Struct, gc=False):
    """What a document says of itself."""

    version: int
    content: int
    deleted: bool
    reason: Reason | None = None


_own = msgspec.json.Decoder(_Own).decode


def _whole(document: scan.Stored) -> Entry | None:
    """Return the entry of a stored document: what lies between its marks must be the record that was sent."""
    own = _own(document.source)
    if own.reason is Reason.VANISHED or is_departure(document.id):
        return None
    _, mark, rest = document.source.partition(MARK)
    record = rest.rpartition(MARK)[0] if mark else None
    return Entry(document.id, own.version, own.content, own.deleted, _hash(record, document.version - own.version))


def _hash(record: bytes | None, drift: int) -> int:
    """Return a signed 64-bit hash of a record's bytes.

    `drift` is how far the engine's version of the document is from its own, 0 unless something else wrote it.
    """
    digest = blake2b(b"%d:" % drift, digest_size=8)
    digest.update(record or b"")
    return int.from_bytes(digest.digest(), "big", signed=True)
