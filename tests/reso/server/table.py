"""The rows of one resource, kept in the order of their keys, of their moments and of their arrival at once."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.reso.server.schema import MODIFICATION_FIELD
from tests.reso.server.timestamps import to_microseconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.reso.query.filter_bounds import Bounds
    from tests.reso.server.schema import EntityType, Record


class TableRow(NamedTuple):
    """A record and its place in the heap. A record that is stored is never changed, only replaced."""

    number: int
    record: Record


class Table:
    """Keys are strings, of events numbers; each compares by code point."""

    def __init__(self, entity: EntityType, *, updates_move_rows: bool) -> None:
        """Begin empty."""
        self.entity = entity
        self.rows: dict[Any, TableRow] = {}  # in the order of their numbers
        self.keys: list[Any] = []
        self._moments: list[tuple[int, Any]] = []
        self._updates_move_rows = updates_move_rows
        self._next = 0

    def put(self, record: Record) -> bool:
        """Store a record under its key; return whether it is new."""
        key = record[self.entity.key]
        before = self.rows.get(key)
        if before is None:
            insort(self.keys, key)
        else:
            self._forget_moment(before.record)
        if self.entity.stamped:
            insort(self._moments, self._moment(record))
        self.rows[key] = TableRow(self._number(key, before), record)
        return before is None

    def remove(self, key: object) -> bool:
        """Forget a record; return whether it was there."""
        row = self.rows.pop(key, None)
        if row is None:
            return False
        del self.keys[bisect_left(self.keys, key)]
        self._forget_moment(row.record)
        return True

    def _number(self, key: object, before: TableRow | None) -> int:
        if before is not None and not self._updates_move_rows:
            return before.number
        self.rows.pop(key, None)
        self._next += 1
        return self._next

    def _moment(self, record: Record) -> tuple[int, Any]:
        return to_microseconds(record.get(MODIFICATION_FIELD)) or 0, record[self.entity.key]

    def _forget_moment(self, record: Record) -> None:
        if self.entity.stamped:
            del self._moments[bisect_left(self._moments, self._moment(record))]

    def by_key(self, within: Bounds, *, descending: bool) -> Iterator[TableRow]:
        """Yield the rows by their keys, from bound to bound."""
        low = 0 if within.low is None else bisect_left(self.keys, within.low)
        high = len(self.keys) if within.high is None else bisect_right(self.keys, within.high)
        return (self.rows[self.keys[at]] for at in _range(low, high, descending=descending))

    def by_moment(self, within: Bounds, *, descending: bool) -> Iterator[list[TableRow]]:
        """Yield the rows that share a moment together, by moments in microseconds, from bound to bound."""
        low = 0 if within.low is None else bisect_left(self._moments, within.low, key=itemgetter(0))
        high = (
            len(self._moments) if within.high is None else bisect_right(self._moments, within.high, key=itemgetter(0))
        )
        walked = (self._moments[at] for at in _range(low, high, descending=descending))
        for _moment, tied in groupby(walked, key=itemgetter(0)):
            yield [self.rows[key] for _, key in tied]


def _range(low: int, high: int, *, descending: bool) -> range:
    return range(high - 1, low - 1, -1) if descending else range(low, high)
