"""A CSV file as a source: its column map turns each row into an envelope."""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from indexer.errors import InvalidRecordError, SourceError
from indexer.source.column_map import read_column_map
from indexer.source.compression import decompressed
from indexer.source.csv_header import CsvHeader
from indexer.source.csv_rows import read_csv_rows
from indexer.source.files import file_identity, modified_microseconds, open_raw
from indexer.source.lines import LineStream, RejectedLine, SourceLine, chained_resources
from mappings import COMPANY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from indexer.source.csv_rows import CsvRow
    from indexer.source.lines import ChangeStream
    from mappings import Resource

_encode = msgspec.json.Encoder().encode


class CsvSource:
    """The rows of one CSV file, plain or compressed, and the company that its column map may declare."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        """Check the column map against the CSV file's header; raise SourceError if they do not match.

        `max_bytes` is the limit of a row.
        """
        self._path = path
        self._max_bytes = max_bytes
        self._resource, self._declared = read_column_map(path)
        self._company = self._declared.company
        if self._declared.platform_company_id is None and self._company is not None:
            self._declared.platform_company_id = self._company.platform_company_id
        self._csv = path.parent / self._declared.file
        if not self._csv.is_file():
            raise SourceError(f"{path.name}: file is {self._declared.file!r}, but {self._csv} is not a file.")
        with self._open_rows():
            pass

    def has(self, resource: Resource) -> bool:
        """Whether the rows belong to the resource, or the column map declares the company."""
        return resource is self._resource or (resource is COMPANY and self._company is not None)

    def open(self, resource: Resource) -> AbstractContextManager[LineStream]:
        """Open the rows, or the one company."""
        return self._open_rows() if resource is self._resource else self._open_company()

    def identity(self, resource: Resource) -> str:
        """Return a fingerprint of the files that the resource is read from."""
        return file_identity(self._path, self._csv) if resource is self._resource else file_identity(self._path)

    def taken_at(self, resource: Resource) -> int:
        """Return when the CSV file was last modified, or the column map for the company."""
        return modified_microseconds(self._csv if resource is self._resource else self._path)

    def changes(self) -> AbstractContextManager[ChangeStream]:
        """Open the company, then the rows."""
        return chained_resources(self)

    @contextmanager
    def _open_rows(self) -> Iterator[LineStream]:
        with open_raw(self._csv) as raw, decompressed(raw) as plain:
            rows = read_csv_rows(self._csv.name, plain.reader, self._max_bytes)
            header = self._header(rows)
            envelope = header.envelope_builder(self._resource, self._declared)
            lines = self._lines(rows, header, envelope)
            yield LineStream(lines, self._csv.stat().st_size, plain.position)

    def _header(self, rows: Iterator[CsvRow]) -> CsvHeader:
        first = next(rows, None)
        if first is None or first.error:
            raise SourceError(f"{self._csv.name} has no header: its first line {first.error if first else 'is empty'}.")
        return CsvHeader(self._path.name, self._csv.name, first.cells)

    def _lines(
        self, rows: Iterator[CsvRow], header: CsvHeader, envelope: Callable[[list[str]], dict[str, object]]
    ) -> Iterator[SourceLine | RejectedLine]:
        identifier = header.identifier_reader(self._resource, self._declared)
        for row in rows:
            line = SourceLine(self._csv.name, row.number, row.data)
            try:
                _check(row, len(header.columns))
                line = line._replace(data=_encode(envelope(row.cells)))
            except InvalidRecordError as error:
                yield RejectedLine(line, error, self._resource, identifier(row.cells))
            else:
                yield line

    @contextmanager
    def _open_company(self) -> Iterator[LineStream]:
        """Open the company, whose `updated_at` is the modification time of the column map."""
        changed = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=modified_microseconds(self._path))
        line = SourceLine(self._path.name, 1, _encode({"updated_at": changed, "record": self._company}))
        total = self._path.stat().st_size
        yield LineStream(iter([line]), total, lambda: total)


def _check(row: CsvRow, width: int) -> None:
    if row.error:
        raise InvalidRecordError("", row.error)
    if len(row.cells) != width:
        raise InvalidRecordError("", f"has {len(row.cells)} cells, but the header has {width}")
