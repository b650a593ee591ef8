"""The copy in a SQLite file: records, checkpoints, and typed tables as views of the records.

The views cost nothing when records are written, and follow from them. Their SQL is also that of DuckDB, which runs the
views of a SQLite file that it attaches. Columns have both spellings.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

import msgspec
from xxhash import xxh64_intdigest

from brokerage_feed.errors import CopyError, NoProgress
from brokerage_feed.limits import FeedLimits
from brokerage_feed.messages import Change, ChangeBatch, SnapshotHeader, SnapshotRecord
from brokerage_feed.private_files import create_file
from brokerage_feed.tables import (
    FEED_COLUMNS,
    LIST_COLUMNS,
    ColumnKind,
    Spelling,
    TypedColumn,
    TypedTable,
    typed_tables,
)


class CopyCheckpoint(NamedTuple):
    """The position of the copy of a resource in the feed.

    `token` is None before the first snapshot is complete. During a snapshot `pending_token` is its token, `after` the
    cursor of the last stored record and `expected` its number of records. `version` increases with every change of the
    copy; `exported` is the format and version of the last export.
    """

    token: str | None = None
    pending_token: str | None = None
    after: str | None = None
    expected: int = 0
    version: int = 0
    exported: str | None = None


class CopyRow(NamedTuple):
    """A stored record. `record` is JSON, and `exact` if there is any; `is_intact` is whether its checksum matches."""

    id: str
    company: str
    sequence: int
    time: str
    content: str
    record: bytes
    exact: bytes
    is_intact: bool


_UPSERT = """INSERT INTO {} (id, company, sequence, time, content, record, checksum, round, exact)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET
company = excluded.company, sequence = excluded.sequence, time = excluded.time, content = excluded.content,
record = excluded.record, checksum = excluded.checksum, round = excluded.round, exact = excluded.exact"""
_SELECT_CHECKPOINT = "SELECT token, coming, after, expected, version, exported FROM state WHERE resource = ?"
_ROWS = """SELECT id, company, sequence, time, content, CAST(record AS BLOB), CAST(exact AS BLOB), checksum FROM {}
ORDER BY id"""
_BEGIN = """UPDATE state SET coming = ?, after = NULL, expected = ?, round = round + 1, version = version + 1
WHERE resource = ?"""
_SET_CURSOR = "UPDATE state SET after = ?, version = version + 1 WHERE resource = ?"
_COMPLETE = """UPDATE state SET token = coming, coming = NULL, after = NULL, version = version + 1
WHERE resource = ?"""


class SqliteCopy:
    """A copy of some resources in the file `copy.sqlite3` of a folder. Use it from one thread at a time.

    Every call that writes is one transaction.
    """

    def __init__(self, folder: Path, resources: Sequence[str], choices: str, limits: FeedLimits | None = None) -> None:
        """Open or create the file; raise CopyError if it is a copy of another selection than `choices`.

        Records are added while as much space is free on the disk as the limits say, else CopyError is raised.
        """
        self.path, self._limits = folder / _FILE_NAME, limits or FeedLimits()
        with self._copy_errors():
            # SQLite gives its -wal and -shm files the same mode.
            create_file(self.path)
            self._connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        try:
            with self._copy_errors():
                self._connection.executescript(_STATE_SCHEMA)
            with self._transaction():
                _require_same_copy(self._connection, self.path, resources, choices)
                for resource in resources:
                    _create_resource(self._connection, resource)
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        self._connection.close()

    def checkpoint(self, resource: str) -> CopyCheckpoint:
        with self._copy_errors():
            return CopyCheckpoint(*self._connection.execute(_SELECT_CHECKPOINT, (resource,)).fetchone())

    def begin_snapshot(self, resource: str, header: SnapshotHeader) -> None:
        """Begin a snapshot; the present records stay until it is complete."""
        with self._transaction():
            self._connection.execute(_BEGIN, (header.token, header.count, resource))

    def add_snapshot_records(self, resource: str, records: Sequence[SnapshotRecord]) -> None:
        with self._transaction():
            self._put(resource, records)
            self._connection.execute(_SET_CURSOR, (records[-1].cursor, resource))

    def complete_snapshot(self, resource: str) -> int:
        """Complete the snapshot: adopt its token, and remove and count the records that it did not have."""
        with self._transaction():
            removed = self._connection.execute(
                f"DELETE FROM {_stored_table(resource)} WHERE round <> ?",  # noqa: S608 - a known name
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
        last = {change.id: change for change in changes}.values()
        self._put(resource, [change for change in last if change.reason is None])
        removed = [(change.id,) for change in last if change.reason is not None]
        self._connection.executemany(f"DELETE FROM {_stored_table(resource)} WHERE id = ?", removed)  # noqa: S608 - a known name
        self._connection.execute("UPDATE state SET version = version + 1 WHERE resource = ?", (resource,))

    def _put(self, resource: str, records: Iterable[SnapshotRecord | Change]) -> None:
        self._limits.require_space(self.path.parent, 0, f"Adding {resource}")
        number = self._round(resource)
        self._connection.executemany(
            _UPSERT.format(_stored_table(resource)), (_row(record, number) for record in records)
        )

    def _round(self, resource: str) -> int:
        """Return the number of the last snapshot begun, stored with its records and those of later changes."""
        (number,) = self._connection.execute("SELECT round FROM state WHERE resource = ?", (resource,)).fetchone()
        return int(number)

    def count(self, resource: str) -> int:
        """Return the number of records."""
        with self._copy_errors():
            return int(self._connection.execute(f"SELECT count(*) FROM {_stored_table(resource)}").fetchone()[0])  # noqa: S608

    def rows(self, resource: str) -> Iterator[CopyRow]:
        """Yield the records in the order of their identifiers."""
        with self._copy_errors():
            for row in self._connection.execute(_ROWS.format(_stored_table(resource))):
                name, company, sequence, time, content, record, stored, checksum = row
                exact = stored or b""
                is_intact = _checksum(record + exact, content) == checksum
                yield CopyRow(name, company, sequence, time, content, record, exact, is_intact)

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


def _row(item: SnapshotRecord | Change, number: int) -> tuple[str | int | None, ...]:
    record, exact = bytes(item.record), msgspec.json.encode(item.exact) if item.exact else b""
    checksum = _checksum(record + exact, item.content)
    stored = exact.decode() or None
    return item.id, item.company, item.sequence, item.time, item.content, record.decode(), checksum, number, stored


def _checksum(record: bytes, content: str) -> int:
    """Return a 63-bit checksum of a row, which fits into a SQLite integer."""
    return xxh64_intdigest(record, int(content, 16)) >> 1


_FILE_NAME = "copy.sqlite3"
_SCHEMA_VERSION = 3
# Of files without views: the table of a resource had its name.
_WITHOUT_VIEWS = 1
_WITHOUT_EXACT = 2

# NORMAL: consistent after a crash and after a power failure, which may lose the last commits.
# Pages of 16 KiB: a record of 3 KB would take a whole page of the default 4 KiB.
_STATE_SCHEMA = """
PRAGMA page_size = 16384;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS state (
    resource TEXT PRIMARY KEY,
    token TEXT,
    coming TEXT,
    after TEXT,
    expected INTEGER NOT NULL DEFAULT 0,
    round INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL DEFAULT 0,
    exported TEXT
);
CREATE TABLE IF NOT EXISTS copy_of (form INTEGER NOT NULL, choices TEXT NOT NULL);
"""
_RESOURCE_TABLE = """
CREATE TABLE IF NOT EXISTS {} (
    id TEXT PRIMARY KEY,
    company TEXT NOT NULL,
    content TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    time TEXT NOT NULL,
    record TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    round INTEGER NOT NULL,
    exact TEXT
)
"""


def _require_same_copy(connection: sqlite3.Connection, path: Path, resources: Sequence[str], choices: str) -> None:
    """Raise CopyError unless the file is new or has the same selection; resources may be added."""
    _forget_first_attempts(connection)
    stored = connection.execute("SELECT form, choices FROM copy_of").fetchone()
    if stored is None:
        connection.execute("INSERT INTO copy_of VALUES (?, ?)", (_SCHEMA_VERSION, choices))
        return
    if stored[0] not in {_SCHEMA_VERSION, _WITHOUT_VIEWS, _WITHOUT_EXACT}:
        raise CopyError(f"{path} was created by another version of this program: use another folder.")
    if stored[1] != choices:
        raise CopyError(f"{path} is a copy of {stored[1]}, not of {choices}: use another folder.")
    present = {name for (name,) in connection.execute("SELECT resource FROM state")}
    if missing := present - set(resources):
        raise CopyError(f"{path} also has {', '.join(sorted(missing))}: add them, or use another folder.")
    if stored[0] == _WITHOUT_VIEWS:
        for resource in present:
            connection.execute(f"ALTER TABLE {resource} RENAME TO {_stored_table(resource)}")
    if stored[0] != _SCHEMA_VERSION:
        for resource in present:
            connection.execute(f"ALTER TABLE {_stored_table(resource)} ADD COLUMN exact TEXT")
            if any(column.kind is ColumnKind.ROUNDED for column in typed_tables(resource)[0].columns):
                # The next run takes a snapshot, which has the exact values of all records; these stay until then.
                connection.execute("UPDATE state SET token = NULL WHERE resource = ?", (resource,))
        connection.execute("UPDATE copy_of SET form = ?", (_SCHEMA_VERSION,))


def _forget_first_attempts(connection: sqlite3.Connection) -> None:
    """Make a file new again if nothing was ever received, as after a mistyped URL or key."""
    if connection.execute("SELECT 1 FROM state WHERE version > 0").fetchone() is None:
        connection.execute("DELETE FROM state WHERE (SELECT form FROM copy_of) = ?", (_SCHEMA_VERSION,))
        connection.execute("DELETE FROM copy_of WHERE form = ?", (_SCHEMA_VERSION,))


def _create_resource(connection: sqlite3.Connection, resource: str) -> None:
    """Create the table and the views of a resource, unless they are there."""
    connection.execute(_RESOURCE_TABLE.format(_stored_table(resource)))
    connection.execute("INSERT OR IGNORE INTO state (resource) VALUES (?)", (resource,))
    _renew_views(connection, resource)


# A view without it is not replaced: a user has created it.
_MARK = "/* by brokerage-feed */"
_CASTS = {
    ColumnKind.INTEGER: "BIGINT",
    ColumnKind.NUMBER: "DOUBLE",
    ColumnKind.ROUNDED: "DOUBLE",
    ColumnKind.DECIMAL: "DOUBLE",
    ColumnKind.BOOLEAN: "BOOLEAN",
}
# A cast makes 0 of a text that is no number in SQLite, and fails in DuckDB. Their types of JSON have other names.
_IS_NUMBER = "upper(json_type({})) IN ('INTEGER', 'REAL', 'BIGINT', 'UBIGINT', 'HUGEINT', 'DOUBLE')"
# The operator is that of DuckDB, too; SQLite has it since 3.38. Dates and times are texts: SQLite has no type for them.
_VALUE = "{} ->> '$.{}'" if sqlite3.sqlite_version_info >= (3, 38) else "json_extract({}, '$.{}')"


def _stored_table(resource: str) -> str:
    """Return the name of the table with the records of a resource, below its view."""
    return f"{resource}_records"


def _renew_views(connection: sqlite3.Connection, resource: str) -> None:
    """Create the views of a resource, and replace those of an earlier version."""
    for table in typed_tables(resource):
        statement = view_statement(resource, table)
        found = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table.name,)).fetchone()
        if found is None or (found[0] != statement and _MARK in (found[0] or "")):
            connection.execute(f"DROP VIEW IF EXISTS {table.name}")
            connection.execute(statement)


def view_statement(resource: str, table: TypedTable) -> str:
    if table.member is None:
        leading, source = ", ".join((*FEED_COLUMNS, "record")), _stored_table(resource)
        columns = _columns(table, "record")
    else:
        identifier, position = LIST_COLUMNS
        leading = f"stored.id AS {identifier}, CAST(item.key AS BIGINT) AS {position}"
        source = f"{_stored_table(resource)} AS stored, json_each(stored.record, '$.{table.member}') AS item"
        columns = _columns(table, "item.value")
    # Names of the package only.
    return f"CREATE VIEW {table.name} AS {_MARK} SELECT {leading}, {', '.join(columns)} FROM {source}"  # noqa: S608


def _columns(table: TypedTable, value: str) -> Iterator[str]:
    """Yield the columns, in both spellings; SQLite does not distinguish `City` from `city`."""
    for column in table.columns:
        names = {(name := column.name(spelling)).lower(): name for spelling in reversed(Spelling)}
        for name in names.values():
            yield f'{_expression(column, value)} AS "{name}"'


def _expression(column: TypedColumn, value: str) -> str:
    path = ".".join(column.path)
    if column.kind is ColumnKind.TEXTS:
        return f"json_extract({value}, '$.{path}')"
    text = _VALUE.format(value, path)
    if column.kind is ColumnKind.ROUNDED:
        text = f"coalesce({_VALUE.format('exact', path)}, {text})"
    if column.kind is ColumnKind.DECIMAL:
        number = f"CASE WHEN {_IS_NUMBER.format(text)} THEN CAST({text} AS DOUBLE) END"
        return f"CASE WHEN json_valid({text}) THEN {number} END"
    return f"CAST({text} AS {_CASTS[column.kind]})" if column.kind in _CASTS else text
