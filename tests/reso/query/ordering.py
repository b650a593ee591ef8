"""$orderby, and the place of a row in an order: where an opaque next link continues."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from tests.reso.server.schema import TIMESTAMP, EntityType
from tests.reso.server.table import TableRow
from tests.reso.server.timestamps import to_microseconds

RowPosition = list[Any]


class BadOrder(Exception):
    """An $orderby that the server does not understand; the message says why."""


@dataclass(frozen=True)
class OrderTerm:
    """One field to order by."""

    field: str
    descending: bool


def parse_order(text: str, entity: EntityType, *, strict: bool) -> tuple[OrderTerm, ...]:
    """Return the terms of an $orderby; unknown fields are left out, or raise BadOrder if `strict`."""
    found = [_term(part.split()) for part in text.split(",") if part.strip()]
    unknown = [term.field for term in found if term.field not in entity.fields]
    if unknown and strict:
        msg = f"{entity.name} has no field {unknown[0]}"
        raise BadOrder(msg)
    return tuple(term for term in found if term.field in entity.fields)


def _term(words: list[str]) -> OrderTerm:
    if len(words) > 2 or words[1:] not in ([], ["asc"], ["desc"]):
        msg = f"unexpected: {' '.join(words)}"
        raise BadOrder(msg)
    return OrderTerm(words[0], words[1:] == ["desc"])


@dataclass(frozen=True)
class RowOrder:
    """An order of all rows: the terms, then the order of arrival."""

    entity: EntityType
    terms: tuple[OrderTerm, ...]

    def position(self, row: TableRow) -> RowPosition:
        """Return what is compared of a row: a rank for each term, then its number."""
        return [*(self._rank(term.field)(row) for term in self.terms), [row.number]]

    def sorted(self, rows: Iterable[TableRow], tie: Callable[[TableRow], Any]) -> list[TableRow]:
        """Return rows in order; `tie` orders what the terms leave tied."""
        found = sorted(rows, key=tie)
        for term in reversed(self.terms):
            found.sort(key=self._rank(term.field), reverse=term.descending)
        return found

    def is_after(self, row: TableRow, place: RowPosition) -> bool:
        """Say whether a row comes behind a place."""
        for mine, other, descending in zip(self.position(row), place, self._directions, strict=True):
            if mine != other:
                return bool((mine > other) != descending)
        return False

    @property
    def _directions(self) -> list[bool]:
        return [*(term.descending for term in self.terms), False]

    def _rank(self, field: str) -> Callable[[TableRow], list[Any]]:
        if self.entity.fields[field] == TIMESTAMP:
            return lambda row: _ranked(to_microseconds(row.record.get(field)))
        return lambda row: _ranked(row.record.get(field))


def _ranked(value: object) -> list[Any]:
    """Return what any two values compare by: null first, then numbers, then text, then whatever else it is."""
    if value is None:
        return [0]
    if isinstance(value, int | float):
        return [1, value]
    return [2, value] if isinstance(value, str) else [3, orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()]
