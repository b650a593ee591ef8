"""A CSV file as a source: its column map makes an envelope of each row."""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from indexer.column_map import read_column_map
from indexer.column_values import Header
from indexer.csv_rows import csv_rows
from indexer.errors import ItemError, SourceError
from indexer.files import file_identity, modified_at, raw_file
from indexer.packed import unpacked
from indexer.source import Fault, Line, Reading, one_after_another
from mappings import COMPANY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from indexer.csv_rows import Row
    from indexer.source import Feed
    from mappings import Resource

_encode = msgspec.json.Encoder().encode


class ColumnSource:
    """The rows of one CSV file, plain or compressed, and the company that the column map may declare."""

    def __init__(self, path: Path) -> None:
        """Read the column map and try it on the CSV file's header; raise SourceError where they do not fit."""
        self._path = path
        self._resource, self._declared = read_column_map(path)
        self._company = self._declared.company
        if self._declared.platform_company_id is None and self._company is not None:
            self._declared.platform_company_id = self._company.platform_company_id
        self._csv = path.parent / self._declared.file
        if not self._csv.is_file():
            raise SourceError(f"{path.name}: file is {self._declared.file!r}, but {self._csv} is no file.")
        with self._open_rows():
            pass

    def has(self, resource: Resource) -> bool:
        """Whether the rows are of the resource, or it is the company's."""
        return resource is self._resource or (resource is COMPANY and self._company is not None)

    def open(self, resource: Resource) -> AbstractContextManager[Reading]:
        """Open the rows, or the one company."""
        return self._open_rows() if resource is self._resource else self._open_company()

    def identity(self, resource: Resource) -> str:
        """Return what changes with the column map or the CSV file."""
        return file_identity(self._path, self._csv) if resource is self._resource else file_identity(self._path)

    def taken_at(self, resource: Resource) -> int:
        """Return when the CSV file was last written, for the company the column map."""
        return modified_at(self._csv if resource is self._resource else self._path)

    def changes(self) -> AbstractContextManager[Feed]:
        """Open the company and then the rows."""
        return one_after_another(self)

    @contextmanager
    def _open_rows(self) -> Iterator[Reading]:
        with raw_file(self._csv) as raw, unpacked(raw) as bytes_:
            rows = csv_rows(self._csv.name, bytes_.plain)
            header = self._header(rows)
            lines = self._lines(rows, len(header.columns), header.envelope(self._resource, self._declared))
            yield Reading(lines, self._csv.stat().st_size, bytes_.position)

    def _header(self, rows: Iterator[Row]) -> Header:
        first = next(rows, None)
        if first is None or first.fault:
            raise SourceError(f"{self._csv.name} has no header: its first line {first.fault if first else 'is empty'}.")
        return Header(self._path.name, self._csv.name, first.cells)

    def _lines(
        self, rows: Iterator[Row], width: int, envelope: Callable[[list[str]], dict[str, object]]
    ) -> Iterator[Line | Fault]:
        for row in rows:
            line = Line(self._csv.name, row.number, row.data)
            try:
                _check(row, width)
                line = line._replace(data=_encode(envelope(row.cells)))
            except ItemError as error:
                yield Fault(line, error, self._resource)
            else:
                yield line

    @contextmanager
    def _open_company(self) -> Iterator[Reading]:
        """Open the company, whose time of change is that of the column map."""
        changed = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=modified_at(self._path))
        line = Line(self._path.name, 1, _encode({"updated_at": changed, "record": self._company}))
        total = self._path.stat().st_size
        yield Reading(iter([line]), total, lambda: total)


def _check(row: Row, width: int) -> None:
    if row.fault:
        raise ItemError("", row.fault)
    if len(row.cells) != width:
        raise ItemError("", f"has {len(row.cells)} cells, but the header has {width}")
