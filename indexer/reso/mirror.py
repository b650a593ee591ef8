"""What is known of a source: its records as they were last read, what each is part of, and what is due to be told.

One SQLite file. Whatever was read is kept together with how far the reading has come, in one transaction, so that a
kill at any point loses nothing.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from indexer.reso.relations import links

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from mappings.dictionary import Dictionary

_PRAGMAS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-64000; PRAGMA temp_store=FILE;"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS record (
    entity TEXT, key TEXT, modified TEXT, body BLOB, PRIMARY KEY (entity, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS link (
    entity TEXT, key TEXT, is_part INTEGER, to_entity TEXT, to_key TEXT,
    PRIMARY KEY (entity, key, is_part, to_entity, to_key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS link_to ON link (to_entity, to_key, is_part, entity, key);
CREATE TABLE IF NOT EXISTS due (entity TEXT, key TEXT, change INTEGER, PRIMARY KEY (entity, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS told (
    alias TEXT, key TEXT, identifier TEXT, updated_at INTEGER, digest BLOB, PRIMARY KEY (alias, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS found (
    alias TEXT, identifier TEXT, updated_at INTEGER, deleted INTEGER, PRIMARY KEY (alias, identifier)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS event (sequence INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS note (name TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
"""
_CHANGES = "changes"
_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Mirror:
    """The file of one source, open in one thread at a time."""

    def __init__(self, path: Path, dictionary: Dictionary) -> None:
        """Open the file, or make it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.base = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=60.0)
        self.base.executescript(_PRAGMAS + _SCHEMA)
        self._dictionary = dictionary
        self.changes = int(self.note(_CHANGES) or 0)  # the number of the last change

    def close(self) -> None:
        """Let go of the file."""
        self.base.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Keep all that is written within, or nothing of it."""
        before = self.changes
        self.base.execute("BEGIN IMMEDIATE")
        try:
            yield
            if self.changes != before:
                self.write_note(_CHANGES, self.changes)
        except BaseException:
            self.base.execute("ROLLBACK")
            self.changes = before
            raise
        self.base.execute("COMMIT")

    def note(self, name: str) -> Any:
        """Return what was noted under a name, None where nothing was."""
        row = self.base.execute("SELECT value FROM note WHERE name = ?", (name,)).fetchone()
        return None if row is None else msgspec.json.decode(row[0])

    def write_note(self, name: str, value: object) -> None:
        """Note something."""
        self.base.execute("INSERT OR REPLACE INTO note VALUES (?, ?)", (name, _encode(value)))

    def forget_note(self, name: str) -> None:
        """Forget what was noted."""
        self.base.execute("DELETE FROM note WHERE name = ?", (name,))

    def put(self, entity: str, key: str, modified: str, record: Mapping[str, Any]) -> bool:
        """Keep a record as it was just read; return whether it is another than before."""
        body = _encode(record)
        known = self.base.execute("SELECT body FROM record WHERE entity = ? AND key = ?", (entity, key)).fetchone()
        if known is not None and known[0] == body:
            return False
        if known is not None:
            self._affect(entity, key)
            self._unlink(entity, key)
        self.base.execute("INSERT OR REPLACE INTO record VALUES (?, ?, ?, ?)", (entity, key, modified, body))
        each = [(entity, key, *link) for link in links(self._dictionary, entity, record)]
        self.base.executemany("INSERT OR IGNORE INTO link VALUES (?, ?, ?, ?, ?)", each)
        self._affect(entity, key)
        return True

    def remove(self, entity: str, key: str) -> bool:
        """Forget a record that is gone at the source; return whether there was one."""
        self._affect(entity, key)
        self._unlink(entity, key)
        found = self.base.execute("DELETE FROM record WHERE entity = ? AND key = ?", (entity, key))
        return found.rowcount > 0

    def _unlink(self, entity: str, key: str) -> None:
        self.base.execute("DELETE FROM link WHERE entity = ? AND key = ?", (entity, key))

    def _affect(self, entity: str, key: str) -> None:
        """Let be told anew: a record, what it is part of, what refers to it, and what that is part of."""
        changed = [(entity, key), *self._referring(entity, key)]
        for each in list(changed):
            changed += self.base.execute(
                "SELECT to_entity, to_key FROM link WHERE entity = ? AND key = ? AND is_part = 1", each
            ).fetchall()
        self.make_due(changed)

    def _referring(self, entity: str, key: str) -> list[tuple[str, str]]:
        found = self.base.execute(
            "SELECT entity, key FROM link WHERE to_entity = ? AND to_key = ? AND is_part = 0", (entity, key)
        )
        return found.fetchall()

    def make_due(self, changed: Iterable[tuple[str, str]]) -> None:
        """Let records be told anew, of entities that something of ours is made of."""
        entities = self._dictionary.entities
        self.changes += 1
        rows = [
            (entity, key, self.changes) for entity, key in changed if entity in entities and entities[entity].aliases
        ]
        self.base.executemany("INSERT OR REPLACE INTO due VALUES (?, ?, ?)", rows)

    def make_all_due(self) -> None:
        """Let everything be told anew, and what was told and is gone."""
        by_alias = {alias: name for name, each in self._dictionary.entities.items() for alias in each.aliases}
        self.make_due(self.base.execute("SELECT entity, key FROM record").fetchall())
        told = self.base.execute("SELECT alias, key FROM told").fetchall()
        self.make_due((by_alias[alias], key) for alias, key in told if alias in by_alias)

    def due(self, entity: str, after: str, most: int) -> list[str]:
        """Return keys that are due, in order, behind one."""
        found = self.base.execute(
            "SELECT key FROM due WHERE entity = ? AND key > ? ORDER BY key LIMIT ?", (entity, after, most)
        )
        return [key for (key,) in found]

    def settle(self, change: int) -> None:
        """Take what was due up to a change as told."""
        self.base.execute("DELETE FROM due WHERE change <= ?", (change,))

    def count(self, table: str, entity: str | None = None) -> int:
        """Return the number of records, or of what is due, of an entity or of all."""
        query = f"SELECT count(*) FROM {table}" + ("" if entity is None else " WHERE entity = ?")  # noqa: S608 - ours
        return int(self.base.execute(query, () if entity is None else (entity,)).fetchone()[0])

    def record(self, entity: str, key: str) -> dict[str, Any] | None:
        """Return a record as it was last read."""
        row = self.base.execute("SELECT body FROM record WHERE entity = ? AND key = ?", (entity, key)).fetchone()
        return None if row is None else _decode(row[0])

    def parts(self, entity: str, of: str, key: str) -> list[dict[str, Any]]:
        """Return the records of an entity that are part of a record, in the order of their keys."""
        found = self.base.execute(
            # In this order: a search for all links of the entity would take a hundred times as long.
            "SELECT body FROM link CROSS JOIN record ON record.entity = link.entity AND record.key = link.key"
            " WHERE to_entity = ? AND to_key = ? AND is_part = 1 AND link.entity = ? ORDER BY link.key",
            (of, key, entity),
        )
        return [_decode(body) for (body,) in found]

    def keys(self, entity: str, after: str, most: int) -> list[str]:
        """Return keys of an entity in order, behind one."""
        found = self.base.execute(
            "SELECT key FROM record WHERE entity = ? AND key > ? ORDER BY key LIMIT ?", (entity, after, most)
        )
        return [key for (key,) in found]

    def modified(self, entity: str, keys: Sequence[str]) -> dict[str, str]:
        """Return the time of change of the records that are known of some keys."""
        marks = ",".join("?" * len(keys))
        query = f"SELECT key, modified FROM record WHERE entity = ? AND key IN ({marks})"  # noqa: S608 - marks only
        return dict(self.base.execute(query, (entity, *keys)).fetchall())
