"""A copy in one SQLite file: a table for each resource, below its views, and its row in `state`, updated together."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from xxhash import xxh64_intdigest

from brokerage_feed.copies.copy_schema import COPY_FILE_NAME, STATE_SCHEMA, create_resource, require_same_copy
from brokerage_feed.copies.copy_store import CopyCheckpoint, CopyRow
from brokerage_feed.errors import CopyError, NoProgress
from brokerage_feed.messages import Change, ChangeBatch, SnapshotHeader, SnapshotRecord
from brokerage_feed.private_files import create_file
from brokerage_feed.tables.sqlite_views import stored_table

_UPSERT = """INSERT INTO {} (id, company, sequence, time, content, record, checksum, round)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET
company = excluded.company, sequence = excluded.sequence, time = excluded.time, content = excluded.content,
record = excluded.record, checksum = excluded.checksum, round = excluded.round"""
_SELECT_CHECKPOINT = "SELECT token, coming, after, expected, version, exported FROM state WHERE resource = ?"
_ROWS = "SELECT id, company, sequence, time, content, CAST(record AS BLOB), checksum FROM {} ORDER BY id"
_BEGIN = """UPDATE state SET coming = ?, after = NULL, expected = ?, round = round + 1, version = version + 1
WHERE resource = ?"""
_SET_CURSOR = "UPDATE state SET after = ?, version = version + 1 WHERE resource = ?"
_COMPLETE = """UPDATE state SET token = coming, coming = NULL, after = NULL, version = version + 1
WHERE resource = ?"""


class SqliteCopy:
    """A copy in the file `copy.sqlite3` of a folder. Use it from one thread at a time."""

    def __init__(self, folder: Path, resources: Sequence[str], choices: str) -> None:
        """Open or create the file; raise CopyError if it is a copy of another selection than `choices`."""
        self.path = folder / COPY_FILE_NAME
        with self._copy_errors():
            # SQLite gives its -wal and -shm files the same mode.
            create_file(self.path)
            self._connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        try:
            with self._copy_errors():
                self._connection.executescript(STATE_SCHEMA)
            with self._transaction():
                require_same_copy(self._connection, self.path, resources, choices)
                for resource in resources:
                    create_resource(self._connection, resource)
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        """Return the copy."""
        return self

    def __exit__(self, *_details: object) -> None:
        """Close the file."""
        self._connection.close()

    def checkpoint(self, resource: str) -> CopyCheckpoint:
        """Return the checkpoint of a resource."""
        with self._copy_errors():
            return CopyCheckpoint(*self._connection.execute(_SELECT_CHECKPOINT, (resource,)).fetchone())

    def begin_snapshot(self, resource: str, header: SnapshotHeader) -> None:
        """Begin a snapshot; the present records stay until it is complete."""
        with self._transaction():
            self._connection.execute(_BEGIN, (header.token, header.count, resource))

    def add_snapshot_records(self, resource: str, records: Sequence[SnapshotRecord]) -> None:
        """Store the next records of the snapshot."""
        with self._transaction():
            self._put(resource, records)
            self._connection.execute(_SET_CURSOR, (records[-1].cursor, resource))

    def complete_snapshot(self, resource: str) -> int:
        """Complete the snapshot: adopt its token, and remove and count the records that it did not have."""
        with self._transaction():
            removed = self._connection.execute(
                f"DELETE FROM {stored_table(resource)} WHERE round <> ?",  # noqa: S608 - a known name
                (self._round(resource),),
            ).rowcount
            self._connection.execute(_COMPLETE, (resource,))
        return removed

    def apply_changes(self, page: ChangeBatch, resources: Sequence[str]) -> None:
        """Apply changes in their order, and store their token for the resources that it covers.

        Raise NoProgress if there are changes of others: names from the service never become names of tables.
        """
        if strange := {change.resource for change in page.changes} - {*resources}:
            raise NoProgress(f"changes returned records of {min(strange)[:40]!r}, which were not requested.")
        with self._transaction():
            for resource in dict.fromkeys(change.resource for change in page.changes):
                self._apply(resource, [change for change in page.changes if change.resource == resource])
            for resource in resources:
                self._connection.execute("UPDATE state SET token = ? WHERE resource = ?", (page.next, resource))

    def _apply(self, resource: str, changes: Sequence[Change]) -> None:
        """Apply the last change of each identifier."""
        last = {change.id: change for change in changes}.values()
        self._put(resource, [change for change in last if change.reason is None])
        removed = [(change.id,) for change in last if change.reason is not None]
        self._connection.executemany(f"DELETE FROM {stored_table(resource)} WHERE id = ?", removed)  # noqa: S608 - a known name
        self._connection.execute("UPDATE state SET version = version + 1 WHERE resource = ?", (resource,))

    def _put(self, resource: str, records: Iterable[SnapshotRecord | Change]) -> None:
        number = self._round(resource)
        self._connection.executemany(
            _UPSERT.format(stored_table(resource)), (_row(record, number) for record in records)
        )

    def _round(self, resource: str) -> int:
        """Return the number of the last snapshot begun, stored with its records and those of later changes."""
        (number,) = self._connection.execute("SELECT round FROM state WHERE resource = ?", (resource,)).fetchone()
        return int(number)

    def count(self, resource: str) -> int:
        """Return the number of records."""
        with self._copy_errors():
            return int(self._connection.execute(f"SELECT count(*) FROM {stored_table(resource)}").fetchone()[0])  # noqa: S608

    def rows(self, resource: str) -> Iterator[CopyRow]:
        """Yield the records in the order of their identifiers."""
        with self._copy_errors():
            for row in self._connection.execute(_ROWS.format(stored_table(resource))):
                name, company, sequence, time, content, record, checksum = row
                yield CopyRow(name, company, sequence, time, content, record, _checksum(record, content) == checksum)

    def record_export(self, resource: str, exported: str) -> None:
        """Store the format and version of the last export."""
        with self._transaction():
            self._connection.execute("UPDATE state SET exported = ? WHERE resource = ?", (exported, resource))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._copy_errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @contextmanager
    def _copy_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise CopyError(f"{self.path} cannot be used: {error}.") from error


def _row(item: SnapshotRecord | Change, number: int) -> tuple[str | int, ...]:
    record = bytes(item.record)
    checksum = _checksum(record, item.content)
    return item.id, item.company, item.sequence, item.time, item.content, record.decode(), checksum, number


def _checksum(record: bytes, content: str) -> int:
    """Return a 63-bit checksum of a row, which fits into a SQLite integer."""
    return xxh64_intdigest(record, int(content, 16)) >> 1
