"""The numbers of events, as the service reads them from the ledger that the indexer keeps (decision 13)."""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from cluster.events import HEAD_ID, Archive, Head, Publication, archive_id
from service.errors import EngineUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cluster.control import Mark
    from service.elastic import Engine

_READ_TOGETHER = 16


class _Column:
    """Publications of one resource, only ever appended: where each begins, as a sequence and as an event."""

    def __init__(self) -> None:
        self.afters, self.bases = array("q"), array("q")

    def append(self, publication: Publication) -> None:
        self.afters.append(publication.after)
        self.bases.append(publication.base)


_Columns = dict[str, _Column]


@dataclass(frozen=True)
class _Part:
    """The publications low..high - 1 of a column; the last of them ends at the sequence `upto`."""

    column: _Column
    low: int
    high: int
    upto: int

    @property
    def after(self) -> int:
        return self.column.afters[self.low] if self.low < self.high else self.upto

    def number(self, sequence: int) -> int | None:
        at = bisect_left(self.column.afters, sequence, self.low, self.high) - 1
        return None if at < self.low else self.column.bases[at] + sequence - self.column.afters[at]

    def place(self, event: int) -> int | None:
        at = bisect_left(self.column.bases, event, self.low, self.high) - 1
        if at < self.low:
            return None
        end = self.column.afters[at + 1] if at + 1 < self.high else self.upto
        return min(end, self.column.afters[at] + event - self.column.bases[at])


class _Line:
    """All that is told of one resource, the newer part first."""

    def __init__(self, archived: _Column | None, recent: _Column | None, begin: int, upto: int) -> None:
        self.upto = upto
        self._parts: list[_Part] = []
        for column in filter(None, (recent, archived)):
            high = len(column.bases)
            self._parts.append(_Part(column, bisect_left(column.bases, begin, 0, high), high, upto))
            upto = self._parts[-1].after

    def number(self, sequence: int) -> int | None:
        found = (part.number(sequence) for part in self._parts)
        return next((number for number in found if number is not None), None)

    def place(self, event: int) -> int:
        found = (part.place(event) for part in self._parts)
        return next((place for place in found if place is not None), 0)


@dataclass(frozen=True)
class Ledger:
    """Which event each change is. It never changes; a later ledger gives the same numbers or tells a change again.

    An alias is that of a resource without a prefix (`Resource.alias`). `end` is the highest number given, 0 before any.
    """

    end: int = 0
    head: Head = field(default_factory=Head, repr=False)
    _lines: Mapping[str, _Line] = field(default_factory=dict, repr=False)

    def number(self, alias: str, sequence: int) -> int | None:
        """Return the event number of a document with a sequence; None above `upto`: it is not told yet."""
        line = self._lines.get(alias)
        return line.number(sequence) if line is not None and 0 < sequence <= line.upto else None

    def place(self, alias: str, event: int) -> int:
        """Return the highest sequence whose number is at most `event`, 0 if none is.

        So events behind N are, of each resource, the sequences in (place(alias, N), upto(alias)].
        """
        line = self._lines.get(alias)
        return 0 if line is None else line.place(event)

    def upto(self, alias: str) -> int:
        """Return the last sequence that is told; nothing at or behind it becomes visible any more."""
        line = self._lines.get(alias)
        return 0 if line is None else line.upto

    def horizon(self, marks: Mapping[str, Mark | None]) -> int:
        """Return the event below which a reader's last one may be too old: keys may be gone without an event for it.

        Whoever has read events, and none from this one on, has to compare its keys with what there is. It is 0 while no
        tombstone was pruned (`Mark.forgotten`) and no resource was rolled back. Tombstones may go while they are
        searched for, which the marks tell before: give marks that were read after the search (`Kept.renew`).
        """
        return max([self.head.void, *(self._forgotten(alias, mark) for alias, mark in marks.items() if mark)])

    def _forgotten(self, alias: str, mark: Mark) -> int:
        return self.number(alias, min(mark.forgotten, self.upto(alias))) or 0


def compiled(head: Head, archived: Mapping[str, _Column]) -> Ledger:
    """Return the ledger of a head and the columns of its archives."""
    recent = _columns(head.publications, {})
    lines = {
        alias: _Line(archived.get(alias), recent.get(alias), reach.begin, reach.upto)
        for alias, reach in head.reaches.items()
    }
    return Ledger(head.end, head, lines)


def _columns(publications: Iterable[Publication], into: _Columns) -> _Columns:
    for publication in publications:
        into.setdefault(publication.alias, _Column()).append(publication)
    return into


class Reader:
    """Reads the ledger; each archive once, the head anew each time."""

    def __init__(self, engine: Engine, control_index: str) -> None:
        """Read nothing yet."""
        self._engine = engine
        self._index = control_index
        self._ledger = Ledger()
        self._first = self._next = 0
        self._archived: _Columns = {}

    async def read(self) -> Ledger:
        """Return the ledger as it is now, an empty one where nothing was told yet; raise ApiError."""
        document = await self._engine.document(self._index, HEAD_ID)
        head = Head() if document is None else msgspec.convert(document, Head)
        if head != self._ledger.head:
            await self._read_archives(head)
            self._ledger = compiled(head, self._archived)
        return self._ledger

    async def _read_archives(self, head: Head) -> None:
        """Read the archives that were not read yet; those before the first are void."""
        if head.first != self._first or head.end < self._ledger.end:
            self._archived, self._first, self._next = {}, head.first, head.first
        while self._next < head.archived:
            numbers = range(self._next, min(self._next + _READ_TOGETHER, head.archived))
            for archive in await asyncio.gather(*(self._archive(number) for number in numbers)):
                _columns(archive.publications, self._archived)
            self._next = numbers.stop

    async def _archive(self, number: int) -> Archive:
        document = await self._engine.document(self._index, archive_id(number))
        if document is None:
            raise EngineUnavailable("The ledger of events was replaced while it was read.")
        return msgspec.convert(document, Archive)
