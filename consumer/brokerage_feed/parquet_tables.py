"""Typed tables as Parquet files, one for each table. Needs the extra `parquet`.

Arrow reads the lines of a snapshot in C++, with the types of the columns. It reads members of one type only, so values
of members without a type become texts. The record stays as JSON in the last column of the resource's own table.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import IO, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import json as pa_json

from brokerage_feed.tables import (
    FEED_COLUMNS,
    LIST_COLUMNS,
    ColumnKind,
    Spelling,
    TypedColumn,
    TypedTable,
    typed_tables,
)

# Of JSON in a row group: some 5,000 listings. The memory of a writer is a few times as much.
GROUP_BYTES = 32_000_000
_RECORD = b',"record":'
_TIME = pa.timestamp("us", tz="UTC")
# As JSON has them; dates and times are texts there.
_READ_TYPES = {
    ColumnKind.TEXT: pa.string(),
    ColumnKind.DATE: pa.string(),
    ColumnKind.TIME: pa.string(),
    ColumnKind.INTEGER: pa.int64(),
    ColumnKind.NUMBER: pa.float64(),
    ColumnKind.BOOLEAN: pa.bool_(),
    ColumnKind.TEXTS: pa.list_(pa.string()),
}
_TYPES = _READ_TYPES | {
    ColumnKind.DATE: pa.date32(),
    ColumnKind.TIME: _TIME,
    ColumnKind.ROUNDED: pa.float64(),
    ColumnKind.DECIMAL: pa.float64(),
    ColumnKind.ANY: pa.string(),
}
# Of JSON: what the views of a SQLite file take for a number, too.
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$"
_FEED_KINDS = {"sequence": ColumnKind.INTEGER, "time": ColumnKind.TIME}


class ParquetTables:
    """Writes the tables of a resource, each to the file that `create` opens by the table's name."""

    def __init__(self, resource: str, spelling: Spelling, create: Callable[[str], IO[bytes]]) -> None:
        tables = typed_tables(resource)
        self._schema = _read_schema(tables)
        self._files = [_TableFile(table, spelling, create(table.name)) for table in tables]
        self._lines: list[bytes] = []
        self._size = 0

    def add(self, lines: bytes) -> None:
        """Add lines of a snapshot; raise ValueError for a value that is not of its column's type."""
        self._lines.append(lines)
        self._size += len(lines)
        if self._size >= GROUP_BYTES:
            self._write()

    def finish(self) -> dict[str, int]:
        """Complete and close the files; return the rows of each table."""
        self._write()
        for file in self._files:
            file.finish()
        return {file.table.name: file.rows for file in self._files}

    def close(self) -> None:
        """Close the files, whatever they hold."""
        for file in self._files:
            file.close()

    def _write(self) -> None:
        lines = b"".join(self._lines)
        self._lines, self._size = [], 0
        if lines:
            rows = _read(lines, self._schema)
            for file in self._files:
                file.write(rows, lines)


class _TableFile:
    """The file of one table."""

    def __init__(self, table: TypedTable, spelling: Spelling, file: IO[bytes]) -> None:
        self.table, self.rows, self._file = table, 0, file
        names = [column.name(spelling) for column in table.columns]
        types = [_TYPES[column.kind] for column in table.columns]
        if table.member is None:
            leading = [(name, _TYPES[_FEED_KINDS.get(name, ColumnKind.TEXT)]) for name in FEED_COLUMNS]
            trailing = [("record", pa.string())]
        else:
            leading, trailing = [*zip(LIST_COLUMNS, (pa.string(), pa.int32()), strict=True)], []
        self._schema = pa.schema([*leading, *zip(names, types, strict=True), *trailing])
        self._writer = pq.ParquetWriter(file, self._schema, compression="zstd")
        self._others = OtherValues(table)

    def write(self, rows: Any, lines: bytes) -> None:
        """Write a row group."""
        columns = self._own_columns(rows, lines) if self.table.member is None else self._list_columns(rows, lines)
        table = pa.Table.from_arrays(columns, schema=self._schema)
        self.rows += table.num_rows
        if table.num_rows:
            self._writer.write_table(table, row_group_size=table.num_rows)

    def _own_columns(self, rows: Any, lines: bytes) -> list[Any]:
        leading = [_converted(rows[name], _FEED_KINDS.get(name, ColumnKind.TEXT)) for name in FEED_COLUMNS]
        texts = pa.array(_record_texts(lines), pa.binary()).cast(pa.string())
        return [*leading, *self._members(rows["record"], lines, rows["exact"]), texts]

    def _list_columns(self, rows: Any, lines: bytes) -> list[Any]:
        lists = pc.struct_field(rows["record"], self.table.member)
        parents = pc.list_parent_indices(lists)
        # The index in the list: that among all rows, less that of the first row of the list.
        sizes = pc.fill_null(pc.list_value_length(lists), 0)
        starts = pc.subtract(pc.cumulative_sum(sizes), sizes)
        positions = pc.subtract(pa.array(range(len(parents)), pa.int64()), starts.take(parents))
        return [rows["id"].take(parents), positions.cast(pa.int32()), *self._members(pc.list_flatten(lists), lines)]

    def _members(self, structs: Any, lines: bytes, exact: Any = None) -> Iterable[Any]:
        others = dict(zip(self._others.columns, self._others.read(lines), strict=False))
        for column in self.table.columns:
            if column in others:
                yield pa.array(others[column], pa.string())
            elif column.kind is ColumnKind.ROUNDED:
                rounded = pc.struct_field(structs, list(column.path)).cast(pa.float64(), safe=False)
                yield pc.coalesce(pc.struct_field(exact, list(column.path)), rounded)
            else:
                yield _converted(pc.struct_field(structs, list(column.path)), column.kind)

    def finish(self) -> None:
        """Write the end of the file and close it."""
        self._writer.close()
        self._file.close()

    def close(self) -> None:
        with suppress(Exception):
            self._writer.close()
        self._file.close()


def _record_texts(lines: bytes) -> list[bytes]:
    """Return the record of each line, as it is; `splitlines` takes three times as long."""
    start, texts = 0, list[bytes]()
    while start < len(lines):
        end = lines.index(b"\n", start)
        texts.append(lines[lines.index(_RECORD, start) + len(_RECORD) : end - 1])
        start = end + 1
    return texts


def _read(lines: bytes, schema: Any) -> dict[str, Any]:
    """Return the columns of lines, each as one array; `record` is an array of structs."""
    table = pa_json.read_json(
        pa.BufferReader(lines),
        pa_json.ReadOptions(use_threads=False, block_size=len(lines)),
        pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    return {name: table[name].combine_chunks() for name in schema.names}


def _read_schema(tables: Iterable[TypedTable]) -> Any:
    own, *lists = tables
    members = _struct_fields(own.columns) + [
        (str(table.member), pa.list_(pa.struct(_struct_fields(table.columns)))) for table in lists
    ]
    feed = [(name, _READ_TYPES[_FEED_KINDS.get(name, ColumnKind.TEXT)]) for name in FEED_COLUMNS]
    exact = [(column.path[0], pa.float64()) for column in own.columns if column.kind is ColumnKind.ROUNDED]
    return pa.schema([*feed, ("exact", pa.struct(exact)), ("record", pa.struct(members))])


def _struct_fields(columns: Iterable[TypedColumn], depth: int = 0) -> list[tuple[str, Any]]:
    """Return the members that have columns of a type, with those of objects within."""
    fields: dict[str, Any] = {}
    inner: dict[str, list[TypedColumn]] = {}
    for column in columns:
        name = column.path[depth]
        if len(column.path) > depth + 1:
            inner.setdefault(name, []).append(column)
        elif column.kind in _READ_TYPES:
            fields[name] = _READ_TYPES[column.kind]
    return [*fields.items(), *((name, pa.struct(_struct_fields(below, depth + 1))) for name, below in inner.items())]


def _converted(values: Any, kind: ColumnKind) -> Any:
    if kind is ColumnKind.DECIMAL:
        return pc.if_else(pc.match_substring_regex(values, _NUMBER), values, None).cast(pa.float64())
    if kind not in {ColumnKind.DATE, ColumnKind.TIME}:
        return values
    try:
        return values.cast(_TYPES[kind])
    except pa.ArrowInvalid:
        # A fraction of more than six digits, which Python cuts.
        read = dt.date.fromisoformat if kind is ColumnKind.DATE else dt.datetime.fromisoformat
        return pa.array([None if text is None else read(text) for text in values.to_pylist()], _TYPES[kind])


_NULL = msgspec.Raw(b"null")


class OtherValues:
    """Reads the columns of kind `ANY` of a table from the lines of a snapshot."""

    def __init__(self, table: TypedTable) -> None:
        self._member = table.member
        self.columns = tuple(column for column in table.columns if column.kind is ColumnKind.ANY)
        members = _members([column.path for column in self.columns])
        if table.member is not None:
            members = [(table.member, list[_struct(members)] | None, None)]  # type: ignore[misc]
        self._decoder = msgspec.json.Decoder(_struct([("record", _struct(members))]))

    def read(self, lines: bytes) -> list[list[str | None]]:
        """Return the texts of each column, in the order of rows."""
        if not self.columns:
            return []
        rows: Iterable[Any] = [line.record for line in self._decoder.decode_lines(lines)]
        if self._member is not None:
            rows = [item for record in rows for item in getattr(record, self._member) or ()]
        return [[_text(row, column) for row in rows] for column in self.columns]


def _members(paths: Sequence[tuple[str, ...]]) -> list[tuple[str, Any, Any]]:
    """Return the members of a type that has the values at these paths."""
    plain: list[tuple[str, Any, Any]] = [(path[0], msgspec.Raw, _NULL) for path in paths if len(path) == 1]
    below: dict[str, list[tuple[str, ...]]] = {}
    for name, *rest in paths:
        if rest:
            below.setdefault(name, []).append(tuple(rest))
    return plain + [(name, _struct(_members(inner)) | None, None) for name, inner in below.items()]


def _struct(members: Sequence[tuple[str, Any, Any] | tuple[str, Any]]) -> Any:
    return msgspec.defstruct("Members", members, gc=False)


def _text(row: Any, column: TypedColumn) -> str | None:
    """Return a text as it is, and any other value as JSON."""
    for name in column.path:
        row = _NULL if row is None else getattr(row, name)
    value = bytes(row)
    if value == b"null":
        return None
    return str(msgspec.json.decode(value)) if value.startswith(b'"') else value.decode()
