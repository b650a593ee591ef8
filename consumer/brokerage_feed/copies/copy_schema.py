"""The tables of a copy, and the check that a file is only used for the same selection."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from brokerage_feed.errors import CopyError
from brokerage_feed.tables.sqlite_views import renew_views, stored_table

COPY_FILE_NAME = "copy.sqlite3"
_SCHEMA_VERSION = 2
# Of files without views: the table of a resource had its name.
_WITHOUT_VIEWS = 1

# NORMAL: consistent after a crash and after a power failure, which may lose the last commits.
# Pages of 16 KiB: a record of 3 KB would take a whole page of the default 4 KiB.
STATE_SCHEMA = """
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
    round INTEGER NOT NULL
)
"""


def require_same_copy(connection: sqlite3.Connection, path: Path, resources: Sequence[str], choices: str) -> None:
    """Raise CopyError unless the file is new or has the same selection; resources may be added."""
    _forget_first_attempts(connection)
    stored = connection.execute("SELECT form, choices FROM copy_of").fetchone()
    if stored is None:
        connection.execute("INSERT INTO copy_of VALUES (?, ?)", (_SCHEMA_VERSION, choices))
        return
    if stored[0] not in {_SCHEMA_VERSION, _WITHOUT_VIEWS}:
        raise CopyError(f"{path} was created by another version of this program: use another folder.")
    if stored[1] != choices:
        raise CopyError(f"{path} is a copy of {stored[1]}, not of {choices}: use another folder.")
    present = {name for (name,) in connection.execute("SELECT resource FROM state")}
    if missing := present - set(resources):
        raise CopyError(f"{path} also has {', '.join(sorted(missing))}: add them, or use another folder.")
    if stored[0] == _WITHOUT_VIEWS:
        for resource in present:
            connection.execute(f"ALTER TABLE {resource} RENAME TO {stored_table(resource)}")
        connection.execute("UPDATE copy_of SET form = ?", (_SCHEMA_VERSION,))


def _forget_first_attempts(connection: sqlite3.Connection) -> None:
    """Make a file new again if nothing was ever received, as after a mistyped URL or key."""
    if connection.execute("SELECT 1 FROM state WHERE version > 0").fetchone() is None:
        connection.execute("DELETE FROM state WHERE (SELECT form FROM copy_of) = ?", (_SCHEMA_VERSION,))
        connection.execute("DELETE FROM copy_of WHERE form = ?", (_SCHEMA_VERSION,))


def create_resource(connection: sqlite3.Connection, resource: str) -> None:
    """Create the table and the views of a resource, unless they are there."""
    connection.execute(_RESOURCE_TABLE.format(stored_table(resource)))
    connection.execute("INSERT OR IGNORE INTO state (resource) VALUES (?)", (resource,))
    renew_views(connection, resource)
