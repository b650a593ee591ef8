"""The event numbers, read from the ledger that the indexer writes (decision 13)."""

import asyncio
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from cluster.control_index import HEAD_ID, LedgerArchive, LedgerHead, Mark, Publication, archive_id
from service.errors import EngineUnavailable
from service.search.cached_value import CachedValue
from service.search.engine import SearchEngine

_CONCURRENT_READS = 16


class _PublicationColumns:
    """The publications of one resource, append-only: the sequence and the event number that each starts after."""

    def __init__(self) -> None:
        self.afters, self.bases = array("q"), array("q")

    def append(self, publication: Publication) -> None:
        self.afters.append(publication.after)
        self.bases.append(publication.base)


_ColumnsByAlias = dict[str, _PublicationColumns]


@dataclass(frozen=True)
class _PublicationRange:
    """The publications low to high - 1 of the columns; the last one ends at the sequence `upto`."""

    column: _PublicationColumns
    low: int
    high: int
    upto: int

    @property
    def after(self) -> int:
        return self.column.afters[self.low] if self.low < self.high else self.upto

    def number(self, sequence: int) -> int | None:
        at = bisect_left(self.column.afters, sequence, self.low, self.high) - 1
        return None if at < self.low else self.column.bases[at] + sequence - self.column.afters[at]

    def sequence_at(self, event: int) -> int | None:
        at = bisect_left(self.column.bases, event, self.low, self.high) - 1
        if at < self.low:
            return None
        end = self.column.afters[at + 1] if at + 1 < self.high else self.upto
        return min(end, self.column.afters[at] + event - self.column.bases[at])


class _ResourceEvents:
    """All published events of one resource, the recent part first."""

    def __init__(
        self, archived: _PublicationColumns | None, recent: _PublicationColumns | None, begin: int, upto: int
    ) -> None:
        self.upto = upto
        self._parts: list[_PublicationRange] = []
        for column in filter(None, (recent, archived)):
            high = len(column.bases)
            self._parts.append(_PublicationRange(column, bisect_left(column.bases, begin, 0, high), high, upto))
            upto = self._parts[-1].after

    def number(self, sequence: int) -> int | None:
        found = (part.number(sequence) for part in self._parts)
        return next((number for number in found if number is not None), None)

    def sequence_at(self, event: int) -> int:
        found = (part.sequence_at(event) for part in self._parts)
        return next((sequence for sequence in found if sequence is not None), 0)


@dataclass(frozen=True)
class EventLedger:
    """Maps changes to event numbers. A number never changes; a later ledger may only repeat a change under a new one.

    An alias has no prefix (`Resource.alias`). `end` is the highest number assigned, 0 if none is.
    """

    end: int = 0
    head: LedgerHead = field(default_factory=LedgerHead, repr=False)
    _events: Mapping[str, _ResourceEvents] = field(default_factory=dict, repr=False)

    def event_number(self, alias: str, sequence: int) -> int | None:
        """Return the event number of a sequence, None if it is not published yet."""
        events = self._events.get(alias)
        return events.number(sequence) if events is not None and 0 < sequence <= events.upto else None

    def sequence_at(self, alias: str, event: int) -> int:
        """Return the highest sequence whose number is at most `event`, 0 if there is none.

        The events after N are thus, in each resource, the sequences from `sequence_at(alias, N)`, excluded, to
        `published_sequence(alias)`, included.
        """
        events = self._events.get(alias)
        return 0 if events is None else events.sequence_at(event)

    def published_sequence(self, alias: str) -> int:
        """Return the last published sequence; nothing at or below it becomes visible later."""
        events = self._events.get(alias)
        return 0 if events is None else events.upto

    def horizon(self, marks: Mapping[str, Mark | None]) -> int:
        """Return the event before which deletions may be missing.

        A reader whose last event is below it must compare its keys with the records. It is 0 until tombstones are
        pruned (`Mark.forgotten`) or a resource is rolled back. Marks are updated before the pruning: pass marks that
        were read after the search (`CachedValue.refresh`).
        """
        return max([self.head.void, *(self._forgotten(alias, mark) for alias, mark in marks.items() if mark)])

    def _forgotten(self, alias: str, mark: Mark) -> int:
        return self.event_number(alias, min(mark.forgotten, self.published_sequence(alias))) or 0


def build_ledger(head: LedgerHead, archived: Mapping[str, _PublicationColumns]) -> EventLedger:
    """Return the ledger of a head and the columns of its archives."""
    recent = _append_publications(head.publications, {})
    events = {
        alias: _ResourceEvents(archived.get(alias), recent.get(alias), reach.begin, reach.upto)
        for alias, reach in head.reaches.items()
    }
    return EventLedger(head.end, head, events)


def _append_publications(publications: Iterable[Publication], into: _ColumnsByAlias) -> _ColumnsByAlias:
    for publication in publications:
        into.setdefault(publication.alias, _PublicationColumns()).append(publication)
    return into


class EventLedgerReader:
    """Reads the ledger: each archive once, the head every time."""

    def __init__(self, engine: SearchEngine, control_index: str) -> None:
        """Start with an empty ledger."""
        self._engine = engine
        self._index = control_index
        self._ledger = EventLedger()
        self._first = self._next = 0
        self._archived: _ColumnsByAlias = {}

    async def read(self) -> EventLedger:
        """Return the current ledger, empty if nothing is published yet; raise ApiError."""
        document = await self._engine.get_document(self._index, HEAD_ID)
        head = LedgerHead() if document is None else msgspec.convert(document, LedgerHead)
        if head != self._ledger.head:
            await self._read_archives(head)
            self._ledger = build_ledger(head, self._archived)
        return self._ledger

    async def _read_archives(self, head: LedgerHead) -> None:
        """Read the archives that are not loaded yet; those before the first are void, as are all of a lost ledger."""
        known = self._ledger.head
        if (head.first, head.control) != (self._first, known.control) or head.end < known.end:
            self._archived, self._first, self._next = {}, head.first, head.first
        while self._next < head.archived:
            numbers = range(self._next, min(self._next + _CONCURRENT_READS, head.archived))
            for archive in await asyncio.gather(*(self._archive(number) for number in numbers)):
                _append_publications(archive.publications, self._archived)
            self._next = numbers.stop

    async def _archive(self, number: int) -> LedgerArchive:
        document = await self._engine.get_document(self._index, archive_id(number))
        if document is None:
            raise EngineUnavailable("The event ledger was replaced while it was read.")
        return msgspec.convert(document, LedgerArchive)


class Events(CachedValue[EventLedger]):
    """The ledger, as read last."""
