"""The typed tables of the records of one file: a file for each table, written next to it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import file_digest
from pathlib import Path

from service.exports.manifest import PARQUET, PublishedFile
from service.publishing.errors import PublishError
from service.publishing.publish_target import PublishTarget
from service.publishing.typed_tables import OpenTables


class TypedFiles:
    """The files of all tables, next to the file `stem` without its format."""

    def __init__(self, target: PublishTarget, stem: Path, resource: str, open_tables: OpenTables) -> None:
        """Create all files."""
        self._target, self._stem = target, stem
        self._tables = open_tables(resource, lambda table: target.create(self._path(table)))

    def _path(self, table: str) -> Path:
        return self._stem.with_name(f"{self._stem.name}.{table}.{PARQUET}")

    def add(self, lines: bytes) -> None:
        """Add a page of lines."""
        with _naming(self._stem):
            self._tables.add(lines)

    def finish(self, last: str) -> list[PublishedFile]:
        """Complete the files, of which the feed key of the last record is `last`."""
        with _naming(self._stem):
            rows = self._tables.finish()
        return [self._published(table, count, last) for table, count in rows.items()]

    def _published(self, table: str, rows: int, last: str) -> PublishedFile:
        path = self._path(table)
        with path.open("rb") as file:
            os.fsync(file.fileno())
            digest = file_digest(file, "sha256").hexdigest()
        return PublishedFile(path.name, PARQUET, path.stat().st_size, rows, digest, last, table)

    def close(self) -> None:
        """Close the files, which are not complete."""
        self._tables.close()


@contextmanager
def _naming(stem: Path) -> Iterator[None]:
    """Turn a value that no column can hold into PublishError."""
    try:
        yield
    except ValueError as error:
        raise PublishError(f"{stem.name} of {stem.parent.name} cannot be written as {PARQUET}: {error}") from error
