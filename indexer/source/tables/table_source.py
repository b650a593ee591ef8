"""Tables as a source: column maps, each applied to the headers of its files and then to their rows."""

from __future__ import annotations

import difflib
import re
import string
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from indexer.clock import epoch_time, now_microseconds
from indexer.errors import InvalidRecordError, SourceError
from indexer.source.files import file_identity, modified_microseconds
from indexer.source.lines import ChangeStream, LineStream, Period, RejectedLine, SourceLine, chained_resources
from indexer.source.tables.cells import CellContext, ReadText, SalvagedRow, constant_converter, value_reader
from indexer.source.tables.column_map import (
    CELL_TYPES,
    ON_CHANGE,
    CellSource,
    ColumnMap,
    TableFormat,
    TextPattern,
    column_index,
    columns_of,
    envelope_fields,
    read_column_maps,
)
from indexer.source.tables.local_times import LocalTimes
from indexer.source.tables.lossy_cells import CellFindings, RowWatch
from indexer.source.tables.rows import (
    CsvRow,
    DetectionNote,
    TableFile,
    find_header,
    header_at,
    read_csv_rows,
    row_text,
    table_files,
    without_footer,
)
from mappings import COMPANY, Resource
from mappings.fields import Field, FieldKind
from mappings.visibility import ADDRESS_SWITCH, LISTING_SWITCH

_encode = msgspec.json.Encoder().encode


def _note(found: str, key: str, files: list[tuple[str, str]]) -> str:
    (name, words), others = files[0], len(files) - 1
    subject = f"{name} and {others:,} more are" if others else f"{name} is"
    example = f", as in {words}" if words else ""
    return f"{subject} {found}{example}: if that is wrong, set `{key}`"


class TableSource:
    """The rows of the tables of one or several column maps, and the companies that these may declare."""

    def __init__(self, paths: list[Path], max_bytes: int) -> None:
        """Check the column maps against the headers of their files; raise SourceError if they do not match.

        `max_bytes` is the limit of a row.
        """
        self._opened = now_microseconds()
        undated = epoch_time(self._opened).isoformat()
        maps = [column_map for path in paths for column_map in read_column_maps(path)]
        self._tables = [MappedTables(column_map, max_bytes, undated) for column_map in maps]
        self._companies = {map_.company.platform_company_id: map_ for map_ in maps if map_.company is not None}
        for table in self._tables:
            for file in table.files:
                with table.open(file):
                    pass

    @property
    def companies(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for table in self._tables for name in table.column_map.declared.companies))

    @property
    def notes(self) -> list[str]:
        """Sentences about what was detected, without full stops; files with the same properties share one."""
        noted: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for table in self._tables:
            for file in table.files:
                for found, key, words in (*file.form.notes, *table.header_notes.get(file.name, ())):
                    noted.setdefault((found, key), []).append((file.name, words))
        return [_note(found, key, files) for (found, key), files in noted.items()]

    @property
    def skipped(self) -> dict[str, Counter[str]]:
        """How many rows were left out in the last complete pass, by resource and reason."""
        rows: dict[str, Counter[str]] = {}
        for table in self._tables:
            if table.skipped:
                rows.setdefault(table.resource.alias, Counter()).update(table.skipped)
        return rows

    @property
    def warnings(self) -> dict[str, list[str]]:
        """Sentences about damaged cells in the last complete pass, by resource, without full stops."""
        found: dict[str, list[str]] = {}
        for table in self._tables:
            found.setdefault(table.resource.alias, []).extend(table.findings.sentences())
        return found

    @property
    def times(self) -> list[str]:
        """What times without an offset left open in the last complete pass, in sentences without full stops."""
        return [f"{table.column_map.name}: {note}" for table in self._tables for note in table.times.notes()]

    def has(self, resource: Resource) -> bool:
        """Whether rows belong to the resource, or a column map declares a company."""
        return bool(self._of(resource)) or (resource is COMPANY and bool(self._companies))

    @contextmanager
    def open(self, resource: Resource) -> Iterator[LineStream]:
        chain = _TableChain(self._of(resource))
        companies = list(self._company_lines()) if resource is COMPANY else []
        lines = chain.lines(companies)
        try:
            yield LineStream(lines, sum(file.size for table in chain.tables for file in table.files), chain.position)
        finally:
            # A generator that another thread is reading cannot be closed; that thread drops it after the current line.
            with suppress(ValueError):
                lines.close()

    def identity(self, resource: Resource) -> str:
        return file_identity(*self._paths(resource))

    def taken_at(self, resource: Resource) -> int:
        """Return when a file of the resource was last modified, in microseconds since 1970.

        Where content decides, it is the time of the run, which is that of changed records.
        """
        tables = self._of(resource)
        if not all(table.is_dated for table in tables):
            return self._opened
        paths = [file.path for table in tables for file in table.files] or self._paths(resource)
        return max(map(modified_microseconds, paths))

    def changes(self) -> AbstractContextManager[ChangeStream]:
        return chained_resources(self)

    def _of(self, resource: Resource) -> list[MappedTables]:
        return [table for table in self._tables if table.resource is resource]

    def _paths(self, resource: Resource) -> list[Path]:
        tables = self._of(resource)
        maps = [table.column_map.path for table in tables]
        maps += [declaring.path for declaring in self._companies.values()] if resource is COMPANY else []
        return list(dict.fromkeys([*maps, *(file.path for table in tables for file in table.files)]))

    def _company_lines(self) -> Iterator[SourceLine]:
        """Yield the companies of the column maps; their `updated_at` is the modification time of the map."""
        for number, declaring in enumerate(self._companies.values(), 1):
            envelope = {"updated_at": epoch_time(modified_microseconds(declaring.path)), "record": declaring.company}
            yield SourceLine(declaring.path.name, number, _encode(envelope))


@dataclass
class _TableChain:
    """The files of several column maps of one resource, one after the other."""

    tables: list[MappedTables]
    done: int = 0
    current: Callable[[], int] = int  # 0 while nothing is open

    def position(self) -> int:
        """Return how many stored bytes have been read."""
        return self.done + self.current()

    def lines(self, first: list[SourceLine]) -> Generator[SourceLine | RejectedLine]:
        """Yield some lines, then those of the files, with increasing positions."""
        yield from first
        before, arrived = len(first), dict[str, int]()
        for table in self.tables:
            table.skipped.clear()
            table.findings.clear()
            table.times.begin(arrived)
            for file in table.files:
                with table.open(file, before) as opened:
                    self.current = opened.position
                    for line in opened.lines:
                        yield line
                        before = line.position
                self.done, self.current = self.done + file.size, int


Row = list[str]


class MappedTables:
    """The files of one column map; `skipped` counts the rows that were left out in the last pass, by reason."""

    def __init__(self, column_map: ColumnMap, max_bytes: int, undated: str) -> None:
        """Find the files; `undated` is the `updated_at` of rows whose content decides. Raises SourceError."""
        self.column_map = column_map
        self.resource = column_map.resource
        self.files = table_files(column_map.declared, column_map.path.parent, column_map.name)
        self.is_dated = column_map.declared.updated_at != ON_CHANGE
        self.skipped: Counter[str] = Counter()
        self.findings = CellFindings()
        self.times = LocalTimes()
        self.header_notes: dict[str, list[DetectionNote]] = {}
        self._columns = _needed_columns(column_map)
        self._max_bytes = max_bytes
        self._undated = undated
        self._converters: dict[tuple[str, ...], _RowConverter] = {}

    @contextmanager
    def open(self, file: TableFile, before: int = 0) -> Iterator[OpenTable]:
        """Open the rows of a file, after `before` lines of others; raise SourceError if a column is missing."""
        declared, form = self.column_map.declared, file.form
        with file.open() as plain:
            rows = read_csv_rows(file.name, plain.reader, self._max_bytes, form, declared.quote)
            names = self._header_cells(rows, file.name)
            header = TableHeader(self.column_map, file.name, names, self._undated, self.times)
            if declared.footer is not None:
                rows = self._without_footer(rows, file.name, declared.footer)
            yield OpenTable(self._converted(rows, file.name, before, self._converter(header)), plain.position, header)

    def _header_cells(self, rows: Iterator[CsvRow], file: str) -> list[str]:
        """Return the names of the columns: the cells of the declared line, or of the row that has all that are read."""

        def count(cells: list[str]) -> int:
            return sum(column_index(cells, column) is not None for column in self._columns)

        if (number := self.column_map.declared.header_at) is not None:
            return header_at(rows, file, number, lambda cells: count(cells) == len(self._columns)).cells
        header, titles = find_header(rows, file, count, len(self._columns))
        if titles:
            found = f"read with the header in line {header.number}, below {len(titles)} others"
            self.header_notes[file] = [DetectionNote(found, "header_at", "; ".join(map(row_text, titles)))]
        return header.cells

    def _without_footer(self, rows: Iterator[CsvRow], file: str, pattern: str) -> Iterator[CsvRow]:
        yield from without_footer(rows, file, re.compile(pattern).search)
        self.skipped["footer"] += 1

    def _converter(self, header: TableHeader) -> _RowConverter:
        """Return the column map applied to a header, once for all files that have the same columns."""
        columns = tuple(header.columns)
        if columns not in self._converters:
            watch = RowWatch(self.findings)
            readers = replace(header, watch=watch).envelope_builder(), header.identifier_reader()
            made = _RowConverter(header, *readers, _skip_rules(header), _optional_paths(self.column_map), watch)
            self._converters[columns] = made
        return self._converters[columns]

    def _converted(
        self, rows: Iterator[CsvRow], file: str, before: int, convert: _RowConverter
    ) -> Iterator[SourceLine | RejectedLine]:
        is_dated, clean = self.is_dated, _cleaner(self.column_map.declared)
        skipped, optional, policy = convert.skipped, convert.optional, self.column_map.declared.trouble_policy
        for row in rows:
            cells = clean(row.cells) if clean else row.cells
            if skipped and not row.error and (reason := skipped(cells)):
                self.skipped[reason] += 1
                continue
            try:
                converted = convert(row, cells)
            except InvalidRecordError as error:
                line = SourceLine(file, row.number, row.data, before, is_dated, optional, policy=policy)
                yield self._salvaged(line, cells, error, convert)
            else:
                convert.watch.add(cells, file, row.number)
                data, period = converted
                yield SourceLine(file, row.number, data, before, is_dated, optional, period=period, policy=policy)

    def _salvaged(
        self, line: SourceLine, cells: Row, error: InvalidRecordError, convert: _RowConverter
    ) -> SourceLine | RejectedLine:
        """Return a row without its cells at fault if all of these may be empty, otherwise rejected with all faults."""
        (rest, period), faults = convert.salvaged(cells) if error.field else ((b"", None), [error])
        if rest and convert.optional.issuperset(fault.member for fault in faults):
            return line._replace(data=rest, emptied=tuple(faults), period=period)
        all_faults = InvalidRecordError.of_all(faults)
        return RejectedLine(line, all_faults, self.resource, convert.identifier(cells), rest)


@dataclass(frozen=True)
class OpenTable:
    """The lines of an open file, how many of its stored bytes have been read, and its header."""

    lines: Iterator[SourceLine | RejectedLine]
    position: Callable[[], int]
    header: TableHeader


@dataclass(frozen=True)
class _RowConverter:
    header: TableHeader
    envelope: Callable[[Row], dict[str, Any]]
    identifier: Callable[[Row], frozenset[str] | None]
    skipped: Callable[[Row], str] | None  # why a row is left out, empty if it is not
    optional: frozenset[str]  # the paths of values that are left out if they cannot be read
    watch: RowWatch

    def __call__(self, row: CsvRow, cells: Row) -> tuple[bytes, Period | None]:
        """Return the envelope of a row, and its period if its time is left open; raise InvalidRecordError."""
        if row.error:
            raise InvalidRecordError("", row.error)
        if len(cells) != len(self.header.columns):
            raise InvalidRecordError("", f"has {len(cells)} cells, but the header has {len(self.header.columns)}")
        return self._encoded(cells)

    def _encoded(self, cells: Row) -> tuple[bytes, Period | None]:
        self.header.times.begin_row()
        envelope = self.envelope(cells)
        period = self.header.times.ordered(envelope, self.header.column_map.resource.identifier)
        return _encode(envelope), period

    def salvaged(self, cells: Row) -> tuple[tuple[bytes, Period | None], list[InvalidRecordError]]:
        """Return the envelope of a row without its cells at fault, its period, and their faults."""
        row = SalvagedRow(cells)
        encoded = self._encoded(row)
        return encoded, list({(fault.field, fault.reason): fault for fault in row.faults}.values())


def _cleaner(declared: TableFormat) -> Callable[[Row], Row] | None:
    """Return the function that trims cells and empties those that count as empty; None if there is nothing to do."""
    if not declared.trim and not declared.empty:
        return None
    characters, empty = declared.trim + string.whitespace + "\u00a0", frozenset(declared.empty)

    def clean(row: Row) -> Row:
        trimmed = [cell.strip(characters) for cell in row]
        return ["" if cell in empty else cell for cell in trimmed]

    return clean


def _skip_rules(header: TableHeader) -> Callable[[Row], str] | None:
    """Return the function that says why `skip_if` leaves a row out, None without rules.

    Of a row with fewer or more cells than the header, only the first of its texts is certain to be in its column.
    """
    declared: TableFormat = header.column_map.declared
    rules: list[tuple[int, Callable[[str], object], str]] = []
    for column, value in declared.skip_if.items():
        index = header.index_of("skip_if", column)
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, TextPattern):
                rules.append((index, re.compile(one.matches).search, f"{column} matches {one.matches!r}"))
            else:
                rules.append((index, one.__eq__, f"{column} is {one!r}" if one else f"{column} is empty"))
    width = len(header.columns)

    def reason(row: Row) -> str:
        if len(row) != width and len(list(filter(None, row))) != 1:
            return ""
        return next((reason for index, fits, reason in rules if index < len(row) and fits(row[index])), "")

    return reason if rules else None


def _needed_columns(column_map: ColumnMap) -> frozenset[str]:
    """Return the columns that a header must have."""
    identifier = column_map.resource.identifier
    is_passed = getattr(column_map.declared.record, identifier) is None  # with `pass_through`
    return frozenset([*columns_of(column_map.declared), *([identifier] if is_passed else [])])


# What decides whether a record is shown, besides what identifies and dates it.
_DECISIVE = frozenset({"Status", LISTING_SWITCH, ADDRESS_SWITCH, "profile_visible_online"})


def _optional_paths(column_map: ColumnMap) -> frozenset[str]:
    """Return the paths of the values that may be empty if they cannot be read; raise SourceError for any other."""
    declared, resource = column_map.declared, column_map.resource
    given = [(field.name, getattr(declared, field.name)) for field in envelope_fields(resource)]
    needed = {name for name, _ in given} | {f"record.{name}" for name in (resource.identifier, *_DECISIVE)}
    given += [(f"record.{field.name}", getattr(declared.record, field.name)) for field in resource.stored]
    optional = set()
    for path, cells in (found for name, value in given for found in _cells_of(name, value)):
        if cells.on_error == "empty" and path in needed:
            raise SourceError(f"{column_map.name}: {path} cannot be empty: remove `on_error`.")
        if (cells.on_error or declared.on_error) == "empty" and path not in needed:
            optional.add(path)
    if declared.pass_through and declared.on_error == "empty":
        passed = {f"record.{field.name}" for field in resource.stored if getattr(declared.record, field.name) is None}
        optional |= passed - needed
    return frozenset(optional)


def _cells_of(path: str, declared: object) -> Iterator[tuple[str, CellSource]]:
    """Yield the cells in a declared value, with their paths without positions in lists."""
    if isinstance(declared, CellSource):
        yield path, declared
    elif isinstance(declared, list):
        for one in declared:
            yield from _cells_of(path, one)
    elif isinstance(declared, msgspec.Struct):
        for name in declared.__struct_fields__:
            yield from _cells_of(f"{path}.{name}", getattr(declared, name))


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
    """The columns of a table, its column map, the name of its file for messages, and the times of its rows.

    `watch` counts damaged cells; None for another reading of the same cells.
    """

    column_map: ColumnMap
    file: str
    columns: list[str]
    undated: str  # the time of rows without one, ISO 8601
    times: LocalTimes
    watch: RowWatch | None = None

    def envelope_builder(self) -> Callable[[Row], dict[str, Any]]:
        """Return the function that turns a row into an envelope; raise SourceError for an unknown column."""
        resource, declared = self.column_map.resource, self.column_map.declared
        members = self._members("", [(field, getattr(declared, field.name)) for field in envelope_fields(resource)])
        record = self._members("record.", self._record_values())

        def envelope(row: Row) -> dict[str, Any]:
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
        if (index := column_index(self.columns, column)) is not None:
            return index
        count = self.columns.count(column)
        problem = "has no column" if count == 0 else f"has {count} columns"
        columns = ", ".join(name or "(blank)" for name in self.columns)
        close = difflib.get_close_matches(column, filter(None, self.columns), n=1, cutoff=0.7) if not count else []
        advice = "".join(f" Did you mean {name!r}?" for name in close)
        advice += f" Write {f'{column} (1)'!r} for the first of them." if count else ""
        raise SourceError(f"{self.column_map.name}: {path}: {self.file} {problem} {column!r} among: {columns}.{advice}")

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
            return self._cells(path, field.kind, declared, self.watch)
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

    def _cells(self, path: str, kind: FieldKind, cells: CellSource, watch: RowWatch | None) -> ValueExtractor:
        try:
            identifier = f"record.{self.column_map.resource.identifier}"
            table, company = self.column_map.declared, self._company(path)
            context = CellContext(table, self.index_of, company, identifier, watch, self.times)
            read = value_reader(path, kind, cells, context)
        except ValueError as error:
            shown = f" {cells.text!r}" if cells.text else ""
            raise SourceError(f"{self.column_map.name}: {path}:{shown} {error}.") from None
        return ValueExtractor(read, is_split=cells.is_list)

    def _company(self, path: str) -> ReadText:
        """Return how the key of a row's company is read, for name-based UUIDs."""
        declared = None if self.column_map.resource is COMPANY else self.column_map.declared.platform_company_id
        if isinstance(declared, CellSource) and path != "platform_company_id":
            extract = self._cells("platform_company_id", FieldKind.STRING, declared, None).extract
            return lambda row: str(extract(row) or "")
        return lambda _: declared if isinstance(declared, str) else ""

    def _constant(self, path: str, kind: FieldKind, declared: object) -> ValueExtractor:
        text = self.undated if path == "updated_at" and declared == ON_CHANGE else declared
        try:
            value = constant_converter(kind)(text) if kind in _DATED and isinstance(text, str) else text
        except ValueError as error:
            raise SourceError(f"{self.column_map.name}: {path} is {declared!r}, which {error}.") from error
        return ValueExtractor(lambda _: value, is_constant=True)


def _extracted(members: dict[str, ValueExtractor], row: Row) -> dict[str, Any]:
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
