"""The column map applied to the header of a table: how the cells of a row become the members of an envelope."""

import difflib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

from indexer.errors import InvalidRecordError, SourceError
from indexer.source.tables.cell_converters import constant_converter
from indexer.source.tables.cell_readers import CellContext, ReadText, value_reader
from indexer.source.tables.cell_sources import CellSource
from indexer.source.tables.column_map import CELL_TYPES, ON_CHANGE, ColumnMap, envelope_fields
from mappings import COMPANY
from mappings.fields import Field, FieldKind

Row = list[str]

_DATED = frozenset({FieldKind.DATE, FieldKind.DATE_TIME})


class ValueExtractor(NamedTuple):
    """How to get a value from a row: None if there is none; raises InvalidRecordError if it cannot be converted.

    With `is_split` the value is a list of values for the list around it.
    """

    extract: Callable[[Row], object]
    is_constant: bool = False
    is_split: bool = False


@dataclass(frozen=True)
class TableHeader:
    """The columns of a table, its column map, the name of its file for messages, and the time of rows without one."""

    column_map: ColumnMap
    file: str
    columns: list[str]
    undated: str  # ISO 8601

    def envelope_builder(self) -> Callable[[Row], dict[str, object]]:
        """Return the function that turns a row into an envelope; raise SourceError for an unknown column."""
        resource, declared = self.column_map.resource, self.column_map.declared
        members = self._members("", [(field, getattr(declared, field.name)) for field in envelope_fields(resource)])
        record = self._members("record.", self._record_values())

        def envelope(row: Row) -> dict[str, object]:
            return {**_extracted(members, row), "record": _extracted(record, row)}

        return envelope

    def identifier_reader(self) -> Callable[[Row], frozenset[str] | None]:
        """Return the function that reads the identifier of an invalid row; None if that is invalid too."""
        name = self.column_map.resource.identifier
        own = [(field, declared) for field, declared in self._record_values() if field.name == name]
        members = self._members("record.", own)
        if name not in members:
            raise SourceError(f"{self.column_map.name}: {self.file} has no column {name!r}: set it in [record].")

        def identifier(row: Row) -> frozenset[str] | None:
            with suppress(InvalidRecordError, UnicodeEncodeError):
                value = members[name].extract(row) if len(row) == len(self.columns) else None
                if value is not None and str(value).encode():
                    return frozenset({str(value)})
            return None

        return identifier

    def index_of(self, path: str, column: str) -> int:
        """Return the position of a column; raise SourceError if there is none, or more than one."""
        count = self.columns.count(column)
        if count != 1:
            problem = "has no column" if count == 0 else "has more than one column"
            columns = ", ".join(name or "(blank)" for name in self.columns)
            close = difflib.get_close_matches(column, filter(None, self.columns), n=1, cutoff=0.7) if not count else []
            advice = "".join(f" Did you mean {name!r}?" for name in close)
            raise SourceError(
                f"{self.column_map.name}: {path}: {self.file} {problem} {column!r} among: {columns}.{advice}"
            )
        return self.columns.index(column)

    def _record_values(self) -> list[tuple[Field, Any]]:
        """Return the fields of the record with what is declared for them, or the columns that have their names."""
        declared = self.column_map.declared
        passed = set(self.columns) if declared.pass_through else set()
        values = []
        for field in self.column_map.resource.stored:
            value = getattr(declared.record, field.name)
            if value is None and field.name in passed and field.kind in CELL_TYPES:
                value = CELL_TYPES[field.kind](column=field.name)
            values.append((field, value))
        return values

    def _members(self, prefix: str, given: Iterable[tuple[Field, Any]]) -> dict[str, ValueExtractor]:
        return {
            field.name: self._value(prefix + field.name, field, value) for field, value in given if value is not None
        }

    def _value(self, path: str, field: Field, declared: Any) -> ValueExtractor:
        if isinstance(declared, list):
            return _list([self._single(f"{path}[{index}]", field, one) for index, one in enumerate(declared)])
        single = self._single(path, field, declared)
        if single.is_split and field.kind is not FieldKind.UNTYPED:
            raise SourceError(f"{self.column_map.name}: {path} is not a list: remove `split`.")
        return single

    def _single(self, path: str, field: Field, declared: Any) -> ValueExtractor:
        if field.members:
            given = [(member, getattr(declared, member.name)) for member in field.members]
            members = self._object_members(f"{path}.", given)
            return _objects(members) if any(member.is_split for member in members.values()) else _object(members)
        if isinstance(declared, CellSource):
            return self._cells(path, field.kind, declared)
        return self._constant(path, field.kind, declared)

    def _object_members(self, prefix: str, given: Iterable[tuple[Field, Any]]) -> dict[str, ValueExtractor]:
        """Return the members of an object; one that is split makes several objects."""
        return {
            field.name: self._value(prefix + field.name, field, value)
            if field.members or isinstance(value, list)
            else self._single(prefix + field.name, field, value)
            for field, value in given
            if value is not None
        }

    def _cells(self, path: str, kind: FieldKind, cells: CellSource) -> ValueExtractor:
        try:
            context = CellContext(self.column_map.declared, self.index_of, self._company(path))
            read = value_reader(path, kind, cells, context)
        except ValueError as error:
            shown = f" {cells.text!r}" if cells.text else ""
            raise SourceError(f"{self.column_map.name}: {path}:{shown} {error}.") from None
        return ValueExtractor(read, is_split=cells.split is not None)

    def _company(self, path: str) -> ReadText:
        """Return how the key of a row's company is read, for name-based UUIDs."""
        declared = None if self.column_map.resource is COMPANY else self.column_map.declared.platform_company_id
        if isinstance(declared, CellSource) and path != "platform_company_id":
            extract = self._cells("platform_company_id", FieldKind.STRING, declared).extract
            return lambda row: str(extract(row) or "")
        return lambda _: declared if isinstance(declared, str) else ""

    def _constant(self, path: str, kind: FieldKind, declared: object) -> ValueExtractor:
        text = self.undated if path == "updated_at" and declared == ON_CHANGE else declared
        try:
            value = constant_converter(kind)(text) if kind in _DATED and isinstance(text, str) else text
        except ValueError as error:
            raise SourceError(f"{self.column_map.name}: {path} is {declared!r}, which {error}.") from error
        return ValueExtractor(lambda _: value, is_constant=True)


def _extracted(members: dict[str, ValueExtractor], row: Row) -> dict[str, object]:
    return {name: value for name, member in members.items() if (value := member.extract(row)) is not None}


def _object(members: dict[str, ValueExtractor]) -> ValueExtractor:
    """Return an object; it has no value if all of its cells are empty, whatever its constants."""
    from_cells = [name for name, member in members.items() if not member.is_constant]

    def extract(row: Row) -> dict[str, object] | None:
        values = _extracted(members, row)
        return values if not from_cells or any(name in values for name in from_cells) else None

    return ValueExtractor(extract, is_constant=not from_cells)


def _objects(members: dict[str, ValueExtractor]) -> ValueExtractor:
    """Return one object for each value of the members that are split; they have the other members in common."""
    split = {name: member for name, member in members.items() if member.is_split}
    common = {name: member for name, member in members.items() if not member.is_split}

    def extract(row: Row) -> list[dict[str, object]] | None:
        shared, lists = _extracted(common, row), _extracted(split, row)
        longest = zip_longest(*[values for values in lists.values() if isinstance(values, list)])
        made = [dict(zip(lists, values, strict=True)) for values in longest]
        return [{**shared, **{name: one for name, one in own.items() if one is not None}} for own in made] or None

    return ValueExtractor(extract, is_split=True)


def _list(elements: list[ValueExtractor]) -> ValueExtractor:
    """Return a list of the elements that have a value."""

    def extract(row: Row) -> list[object] | None:
        values: list[object] = []
        for element in elements:
            value = element.extract(row)
            if element.is_split and isinstance(value, list):
                values.extend(value)
            elif value is not None:
                values.append(value)
        return values or None

    return ValueExtractor(extract, is_constant=all(element.is_constant for element in elements))
