"""The tables of a copy, and the refusal to make one copy of two things."""

from __future__ import annotations

from typing import TYPE_CHECKING

from consumer.errors import CopyError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path

FILE = "copy.sqlite3"
_FORM = 1

# NORMAL: killed at any moment it is consistent, and after a power cut too, though the last commits may be lost then.
# Pages of 16 KiB: of the usual 4 KiB a record of 3 KB would fill one alone.
SCHEMA = """
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
TABLE = """
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


def refuse_other_choices(connection: sqlite3.Connection, path: Path, resources: Sequence[str], choices: str) -> None:
    """Raise CopyError unless the file is new or a copy of the same; more resources than before may be asked for."""
    found = connection.execute("SELECT form, choices FROM copy_of").fetchone()
    if found is None:
        connection.execute("INSERT INTO copy_of VALUES (?, ?)", (_FORM, choices))
        return
    if found[0] != _FORM:
        raise CopyError(f"{path} was made by another version of this program: take another folder.")
    if found[1] != choices:
        raise CopyError(f"{path} is a copy of {found[1]}, not of {choices}: take another folder for that.")
    missing = {name for (name,) in connection.execute("SELECT resource FROM state")} - set(resources)
    if missing:
        raise CopyError(f"{path} also holds {', '.join(sorted(missing))}: name them too, or take another folder.")
