"""A column map against the header of a CSV file: from the cells of a row to the members of an envelope."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from indexer.cells import converter
from indexer.column_map import Cells, DatedCells, UntypedCells, envelope_fields
from indexer.errors import ItemError, SourceError
from mappings.fields import Field, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from mappings import Resource

    Row = list[str]

_DATED = frozenset({Kind.DATE, Kind.DATE_TIME})


class Value(NamedTuple):
    """How to take a value from a row: None where there is none, ItemError where it cannot be read."""

    take: Callable[[Row], object]
    is_constant: bool


@dataclass(frozen=True)
class Header:
    """The columns of a CSV file, and what file and column map are called in messages."""

    map_name: str
    csv_name: str
    columns: list[str]

    def envelope(self, resource: Resource, declared: Any) -> Callable[[Row], dict[str, object]]:
        """Return the function from a row to an envelope; raise SourceError for a column that is not there."""
        members = self._members("", envelope_fields(resource), declared)
        record = self._members("record.", resource.stored, declared.record)

        def envelope(row: Row) -> dict[str, object]:
            return {**_taken(members, row), "record": _taken(record, row)}

        return envelope

    def _members(self, prefix: str, fields: tuple[Field, ...], declared: Any) -> dict[str, Value]:
        given = ((field, getattr(declared, field.name)) for field in fields)
        return {
            field.name: self._value(prefix + field.name, field, value) for field, value in given if value is not None
        }

    def _value(self, place: str, field: Field, declared: Any) -> Value:
        if isinstance(declared, list):
            elements = [self._single(f"{place}[{index}]", field, one) for index, one in enumerate(declared)]
            return _list(elements)
        return self._single(place, field, declared)

    def _single(self, place: str, field: Field, declared: Any) -> Value:
        if field.members:
            return _object(self._members(f"{place}.", field.members, declared))
        if isinstance(declared, Cells):
            return Value(self._cells(place, field.kind, declared), is_constant=False)
        return self._constant(place, field.kind, declared)

    def _constant(self, place: str, kind: Kind, declared: object) -> Value:
        try:
            value = converter(kind)(declared) if kind in _DATED and isinstance(declared, str) else declared
        except ValueError as error:
            raise SourceError(f"{self.map_name}: {place} is {declared!r}, which {error}.") from error
        return Value(lambda _: value, is_constant=True)

    def _cells(self, place: str, kind: Kind, cells: Cells) -> Callable[[Row], object]:
        indices = [self._index(place, column) for column in cells.columns]
        convert, (start, *between) = _conversion(kind, cells), cells.between
        origin = " and ".join(f"column {column}" for column in cells.columns)

        def take(row: Row) -> object:
            texts = [row[index] for index in indices]
            if not all(texts):
                return None
            text = start + "".join(chain.from_iterable(zip(texts, between, strict=True)))
            try:
                return convert(text)
            except ValueError as error:
                raise ItemError(place, f"{origin}: {text!r} {error}") from None

        return take

    def _index(self, place: str, column: str) -> int:
        found = self.columns.count(column)
        if found != 1:
            problem = "has no column" if found == 0 else "has more than one column"
            columns = ", ".join(self.columns)
            raise SourceError(f"{self.map_name}: {place}: {self.csv_name} {problem} {column!r} among: {columns}.")
        return self.columns.index(column)


def _conversion(kind: Kind, cells: Cells) -> Callable[[str], object]:
    if cells.map is not None:
        return _looked_up(cells.map, cells.default)
    if isinstance(cells, UntypedCells):
        return converter(Kind(cells.type))
    return converter(kind, cells.format if isinstance(cells, DatedCells) else None)


def _looked_up(table: dict[str, Any], default: object) -> Callable[[str], object]:
    def look_up(text: str) -> object:
        value = table.get(text, default)
        if value is None:
            raise ValueError("is not in the map")
        return value

    return look_up


def _taken(members: dict[str, Value], row: Row) -> dict[str, object]:
    return {name: value for name, member in members.items() if (value := member.take(row)) is not None}


def _object(members: dict[str, Value]) -> Value:
    """Return an object, which is none where all of its cells are empty, whatever constants stand beside them."""
    from_cells = [name for name, member in members.items() if not member.is_constant]

    def take(row: Row) -> dict[str, object] | None:
        taken = _taken(members, row)
        return taken if not from_cells or any(name in taken for name in from_cells) else None

    return Value(take, is_constant=not from_cells)


def _list(elements: list[Value]) -> Value:
    """Return a list of what there is."""

    def take(row: Row) -> list[object] | None:
        return [value for element in elements if (value := element.take(row)) is not None] or None

    return Value(take, is_constant=all(element.is_constant for element in elements))
