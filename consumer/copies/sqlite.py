"""The copy in one SQLite file: a table for each resource, and a row for each in `state` in the same transactions."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from xxhash import xxh64_intdigest

from consumer.copies.copy import Place, Row
from consumer.copies.schema import FILE, SCHEMA, TABLE, refuse_other_choices
from consumer.errors import CopyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from consumer.answers import Change, Header, Page, Record

_PUT = """INSERT INTO {} (id, company, sequence, time, content, record, checksum, round)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET
company = excluded.company, sequence = excluded.sequence, time = excluded.time, content = excluded.content,
record = excluded.record, checksum = excluded.checksum, round = excluded.round"""
_PLACE = "SELECT token, coming, after, expected, version, exported FROM state WHERE resource = ?"
_ROWS = "SELECT id, company, sequence, time, content, CAST(record AS BLOB), checksum FROM {} ORDER BY id"
_BEGIN = """UPDATE state SET coming = ?, after = NULL, expected = ?, round = round + 1, version = version + 1
WHERE resource = ?"""
_ADDED = "UPDATE state SET after = ?, version = version + 1 WHERE resource = ?"
_COMPLETE = """UPDATE state SET token = coming, coming = NULL, after = NULL, version = version + 1
WHERE resource = ?"""


class SqliteCopy:
    """A copy in `copy.sqlite3` of a folder. One thread at a time may use it."""

    def __init__(self, folder: Path, resources: Sequence[str], choices: str) -> None:
        """Open or make it. `choices` say what it is a copy of; raises CopyError where it is one of something else."""
        self.path = folder / FILE
        with self._told():
            self._connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            self._connection.executescript(SCHEMA)
        try:
            with self._transaction():
                refuse_other_choices(self._connection, self.path, resources, choices)
                for resource in resources:
                    self._connection.execute(TABLE.format(resource))
                    self._connection.execute("INSERT OR IGNORE INTO state (resource) VALUES (?)", (resource,))
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        """Use it."""
        return self

    def __exit__(self, *_details: object) -> None:
        """Close the file."""
        self._connection.close()

    def place(self, resource: str) -> Place:
        """Return how far a resource is."""
        with self._told():
            return Place(*self._connection.execute(_PLACE, (resource,)).fetchone())

    def begin(self, resource: str, header: Header) -> None:
        """Begin a snapshot; what is held stays until it is complete."""
        with self._transaction():
            self._connection.execute(_BEGIN, (header.token, header.count, resource))

    def add(self, resource: str, records: Sequence[Record]) -> None:
        """Keep the next records of the snapshot under way."""
        with self._transaction():
            self._put(resource, records)
            self._connection.execute(_ADDED, (records[-1].place, resource))

    def complete(self, resource: str) -> int:
        """End the snapshot: go on from its token, remove what it did not have, and return how much that was."""
        with self._transaction():
            removed = self._connection.execute(
                f"DELETE FROM {resource} WHERE round <> ?",  # noqa: S608 - one of ours
                (self._round(resource),),
            ).rowcount
            self._connection.execute(_COMPLETE, (resource,))
        return removed

    def apply(self, page: Page, resources: Sequence[str]) -> None:
        """Apply changes in their order, and keep their token for the resources that it covers."""
        with self._transaction():
            for resource in dict.fromkeys(change.resource for change in page.changes):
                self._apply(resource, [change for change in page.changes if change.resource == resource])
            for resource in resources:
                self._connection.execute("UPDATE state SET token = ? WHERE resource = ?", (page.next, resource))

    def _apply(self, resource: str, changes: Sequence[Change]) -> None:
        """Put and delete what came last of each identifier."""
        last = {change.id: change for change in changes}.values()
        self._put(resource, [change for change in last if change.reason is None])
        gone = [(change.id,) for change in last if change.reason is not None]
        self._connection.executemany(f"DELETE FROM {resource} WHERE id = ?", gone)  # noqa: S608 - one of ours
        self._connection.execute("UPDATE state SET version = version + 1 WHERE resource = ?", (resource,))

    def _put(self, resource: str, records: Iterable[Record | Change]) -> None:
        at = self._round(resource)
        rows = ((*_plain(one), bytes(one.record).decode(), _sum(bytes(one.record), one.content), at) for one in records)
        self._connection.executemany(_PUT.format(resource), rows)

    def _round(self, resource: str) -> int:
        """Return the number of the last snapshot that was begun: what it brings, and what comes after, has it."""
        (at,) = self._connection.execute("SELECT round FROM state WHERE resource = ?", (resource,)).fetchone()
        return int(at)

    def count(self, resource: str) -> int:
        """Return how many records are held."""
        with self._told():
            return int(self._connection.execute(f"SELECT count(*) FROM {resource}").fetchone()[0])  # noqa: S608

    def rows(self, resource: str) -> Iterator[Row]:
        """Yield the records with rising identifiers."""
        with self._told():
            for name, company, sequence, time, content, record, checksum in self._connection.execute(
                _ROWS.format(resource)
            ):
                yield Row(name, company, sequence, time, content, record, _sum(record, content) == checksum)

    def note_export(self, resource: str, exported: str) -> None:
        """Keep what was exported last."""
        with self._transaction():
            self._connection.execute("UPDATE state SET exported = ? WHERE resource = ?", (exported, resource))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._told():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise CopyError(f"{self.path} cannot be used: {error}.") from error


def _plain(one: Record | Change) -> tuple[str, str, int, str, str]:
    return one.id, one.company, one.sequence, one.time, one.content


def _sum(record: bytes, content: str) -> int:
    """Return what tells whether a row is as it was written: 63 bits, which SQLite's integers hold."""
    return xxh64_intdigest(record, int(content, 16)) >> 1
