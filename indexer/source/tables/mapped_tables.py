"""The files of one column map, and the conversion of their rows to envelopes."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from indexer.errors import InvalidRecordError
from indexer.source.lines import RejectedLine, SourceLine
from indexer.source.tables.column_map import ON_CHANGE, ColumnMap
from indexer.source.tables.csv_rows import CsvRow, header_cells, read_csv_rows
from indexer.source.tables.table_files import TableFile, table_files
from indexer.source.tables.table_format import TableFormat
from indexer.source.tables.table_header import TableHeader

Row = list[str]

_encode = msgspec.json.Encoder().encode


class MappedTables:
    """The files of one column map; `skipped` is the number of rows that `skip_if` left out in the last pass."""

    def __init__(self, column_map: ColumnMap, max_bytes: int, undated: str) -> None:
        """Find the files; `undated` is the `updated_at` of rows whose content decides. Raises SourceError."""
        self.column_map = column_map
        self.resource = column_map.resource
        self.files = table_files(column_map.declared, column_map.path.parent, column_map.name)
        self.is_dated = column_map.declared.updated_at != ON_CHANGE
        self.skipped = 0
        self._max_bytes = max_bytes
        self._undated = undated
        self._converters: dict[tuple[str, ...], _RowConverter] = {}

    @contextmanager
    def open(self, file: TableFile, before: int = 0) -> Iterator[OpenTable]:
        """Open the rows of a file, after `before` lines of others; raise SourceError if a column is missing."""
        declared, form = self.column_map.declared, file.form
        with file.open() as plain:
            rows = read_csv_rows(file.name, plain.reader, self._max_bytes, form, declared.quote)
            header = TableHeader(self.column_map, file.name, header_cells(rows, file.name), self._undated)
            yield OpenTable(self._converted(rows, file.name, before, self._converter(header)), plain.position, header)

    def _converter(self, header: TableHeader) -> _RowConverter:
        """Return the column map applied to a header, once for all files that have the same columns."""
        columns = tuple(header.columns)
        if columns not in self._converters:
            made = _RowConverter(header, header.envelope_builder(), header.identifier_reader(), _skips(header))
            self._converters[columns] = made
        return self._converters[columns]

    def _converted(
        self, rows: Iterator[CsvRow], file: str, before: int, convert: _RowConverter
    ) -> Iterator[SourceLine | RejectedLine]:
        is_dated, clean = self.is_dated, _cleaner(self.column_map.declared)
        for row in rows:
            cells = clean(row.cells) if clean else row.cells
            try:
                data = convert(row, cells)
            except InvalidRecordError as error:
                line = SourceLine(file, row.number, row.data, before, is_dated)
                yield RejectedLine(line, error, self.resource, convert.identifier(cells))
            else:
                if data is None:
                    self.skipped += 1
                else:
                    yield SourceLine(file, row.number, data, before, is_dated)


@dataclass(frozen=True)
class OpenTable:
    """The lines of an open file, how many of its stored bytes have been read, and its header."""

    lines: Iterator[SourceLine | RejectedLine]
    position: Callable[[], int]
    header: TableHeader


@dataclass(frozen=True)
class _RowConverter:
    header: TableHeader
    envelope: Callable[[Row], dict[str, object]]
    identifier: Callable[[Row], frozenset[str] | None]
    skips: Callable[[Row], bool] | None

    def __call__(self, row: CsvRow, cells: Row) -> bytes | None:
        """Return the envelope of a row, None if it is skipped; raise InvalidRecordError."""
        if row.error:
            raise InvalidRecordError("", row.error)
        if len(cells) != len(self.header.columns):
            raise InvalidRecordError("", f"has {len(cells)} cells, but the header has {len(self.header.columns)}")
        if self.skips is not None and self.skips(cells):
            return None
        return _encode(self.envelope(cells))


def _cleaner(declared: TableFormat) -> Callable[[Row], Row] | None:
    """Return the function that trims cells and empties those that count as empty; None if there is nothing to do."""
    if not declared.trim and not declared.empty:
        return None
    characters, empty = declared.trim + string.whitespace + "\u00a0", frozenset(declared.empty)

    def clean(row: Row) -> Row:
        trimmed = [cell.strip(characters) for cell in row]
        return ["" if cell in empty else cell for cell in trimmed]

    return clean


def _skips(header: TableHeader) -> Callable[[Row], bool] | None:
    """Return the function that decides whether a row is left out."""
    declared: TableFormat = header.column_map.declared
    rules = [
        (header.index_of("skip_if", column), frozenset([value] if isinstance(value, str) else value))
        for column, value in declared.skip_if.items()
    ]
    return (lambda row: any(row[index] in values for index, values in rules)) if rules else None
