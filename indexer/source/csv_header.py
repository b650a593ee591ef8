"""The column map applied to the header of a CSV file: how the cells of a row become the members of an envelope."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from indexer.errors import InvalidRecordError, SourceError
from indexer.source.cell_converters import cell_converter
from indexer.source.column_map import CellSource, DatedCellSource, UntypedCellSource, envelope_fields
from mappings.fields import Field, FieldKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from mappings import Resource

    Row = list[str]

_DATED = frozenset({FieldKind.DATE, FieldKind.DATE_TIME})


class ValueExtractor(NamedTuple):
    """How to get a value from a row: None if there is none; raises InvalidRecordError if it cannot be converted."""

    extract: Callable[[Row], object]
    is_constant: bool


@dataclass(frozen=True)
class CsvHeader:
    """The columns of a CSV file, and the names of the file and its column map for messages."""

    map_name: str
    csv_name: str
    columns: list[str]

    def envelope_builder(self, resource: Resource, declared: Any) -> Callable[[Row], dict[str, object]]:
        """Return the function that turns a row into an envelope; raise SourceError for an unknown column."""
        members = self._members("", envelope_fields(resource), declared)
        record = self._members("record.", resource.stored, declared.record)

        def envelope(row: Row) -> dict[str, object]:
            return {**_extracted(members, row), "record": _extracted(record, row)}

        return envelope

    def identifier_reader(self, resource: Resource, declared: Any) -> Callable[[Row], frozenset[str] | None]:
        """Return the function that reads the identifier of an invalid row; None if that is invalid too."""
        fields = tuple(field for field in resource.stored if field.name == resource.identifier)
        (member,) = self._members("record.", fields, declared.record).values()

        def identifier(row: Row) -> frozenset[str] | None:
            with suppress(InvalidRecordError, UnicodeEncodeError):
                value = member.extract(row) if len(row) == len(self.columns) else None
                if value is not None and str(value).encode():
                    return frozenset({str(value)})
            return None

        return identifier

    def _members(self, prefix: str, fields: tuple[Field, ...], declared: Any) -> dict[str, ValueExtractor]:
        given = ((field, getattr(declared, field.name)) for field in fields)
        return {
            field.name: self._value(prefix + field.name, field, value) for field, value in given if value is not None
        }

    def _value(self, path: str, field: Field, declared: Any) -> ValueExtractor:
        if isinstance(declared, list):
            return _list([self._single(f"{path}[{index}]", field, one) for index, one in enumerate(declared)])
        return self._single(path, field, declared)

    def _single(self, path: str, field: Field, declared: Any) -> ValueExtractor:
        if field.members:
            return _object(self._members(f"{path}.", field.members, declared))
        if isinstance(declared, CellSource):
            return ValueExtractor(self._cells(path, field.kind, declared), is_constant=False)
        return self._constant(path, field.kind, declared)

    def _constant(self, path: str, kind: FieldKind, declared: object) -> ValueExtractor:
        try:
            value = cell_converter(kind)(declared) if kind in _DATED and isinstance(declared, str) else declared
        except ValueError as error:
            raise SourceError(f"{self.map_name}: {path} is {declared!r}, which {error}.") from error
        return ValueExtractor(lambda _: value, is_constant=True)

    def _cells(self, path: str, kind: FieldKind, cells: CellSource) -> Callable[[Row], object]:
        indices = [self._index(path, column) for column in cells.columns]
        convert, (start, *between) = _conversion(kind, cells), cells.literals
        origin = " and ".join(f"column {column}" for column in cells.columns)

        def extract(row: Row) -> object:
            texts = [row[index] for index in indices]
            if not all(texts):
                return None
            text = start + "".join(chain.from_iterable(zip(texts, between, strict=True)))
            try:
                return convert(text)
            except ValueError as error:
                raise InvalidRecordError(path, f"{origin}: {text!r} {error}") from None

        return extract

    def _index(self, path: str, column: str) -> int:
        count = self.columns.count(column)
        if count != 1:
            problem = "has no column" if count == 0 else "has more than one column"
            columns = ", ".join(self.columns)
            raise SourceError(f"{self.map_name}: {path}: {self.csv_name} {problem} {column!r} among: {columns}.")
        return self.columns.index(column)


def _conversion(kind: FieldKind, cells: CellSource) -> Callable[[str], object]:
    if cells.map is not None:
        return _mapped(cells.map, cells.default)
    if isinstance(cells, UntypedCellSource):
        return cell_converter(FieldKind(cells.type))
    return cell_converter(kind, cells.format if isinstance(cells, DatedCellSource) else None)


def _mapped(table: dict[str, Any], default: object) -> Callable[[str], object]:
    def look_up(text: str) -> object:
        value = table.get(text, default)
        if value is None:
            raise ValueError("is not in the map")
        return value

    return look_up


def _extracted(members: dict[str, ValueExtractor], row: Row) -> dict[str, object]:
    return {name: value for name, member in members.items() if (value := member.extract(row)) is not None}


def _object(members: dict[str, ValueExtractor]) -> ValueExtractor:
    """Return an object; it has no value if all of its cells are empty, whatever its constants."""
    from_cells = [name for name, member in members.items() if not member.is_constant]

    def extract(row: Row) -> dict[str, object] | None:
        values = _extracted(members, row)
        return values if not from_cells or any(name in values for name in from_cells) else None

    return ValueExtractor(extract, is_constant=not from_cells)


def _list(elements: list[ValueExtractor]) -> ValueExtractor:
    """Return a list of the elements that have a value."""

    def extract(row: Row) -> list[object] | None:
        return [value for element in elements if (value := element.extract(row)) is not None] or None

    return ValueExtractor(extract, is_constant=all(element.is_constant for element in elements))
