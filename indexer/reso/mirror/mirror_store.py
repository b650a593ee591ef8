"""The mirror of a source in one SQLite file: its records, the links between them, and the changes to publish.

Records and checkpoints are written in one transaction, so a kill at any point loses nothing.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from cluster.private_files import create_file, make_folder
from indexer.reso.mirror.record_links import find_links
from mappings.data_dictionary.model import DataDictionary

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
CREATE TABLE IF NOT EXISTS due ( -- changes to publish
    entity TEXT, key TEXT, change INTEGER, PRIMARY KEY (entity, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS told ( -- the versions last published
    alias TEXT, key TEXT, identifier TEXT, updated_at INTEGER, digest BLOB, PRIMARY KEY (alias, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS found ( -- the versions that the index had before
    alias TEXT, identifier TEXT, updated_at INTEGER, deleted INTEGER, PRIMARY KEY (alias, identifier)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS event ( -- applied events
    sequence INTEGER PRIMARY KEY
);
CREATE TABLE IF NOT EXISTS note ( -- checkpoints
    name TEXT PRIMARY KEY, value BLOB
) WITHOUT ROWID;
"""
_CHANGE_COUNTER = "changes"
_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Mirror:
    """The mirror of one source; for one thread at a time."""

    def __init__(self, path: Path, dictionary: DataDictionary) -> None:
        """Open the file; create it if it is missing."""
        make_folder(path.parent)
        # SQLite gives its -wal and -shm files the same mode.
        create_file(path)
        self.connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=60.0)
        self._dictionary = dictionary
        try:
            self.connection.executescript(_PRAGMAS + _SCHEMA)
            self.last_change = int(self.read_note(_CHANGE_COUNTER) or 0)  # the sequence number of the last change
        except BaseException:
            self.connection.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all writes of the block, or none."""
        before = self.last_change
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            if self.last_change != before:
                self.write_note(_CHANGE_COUNTER, self.last_change)
        except BaseException:
            self.connection.execute("ROLLBACK")
            self.last_change = before
            raise
        self.connection.execute("COMMIT")

    def read_note(self, name: str) -> Any:
        """Return the value stored under a name, None if there is none."""
        row = self.connection.execute("SELECT value FROM note WHERE name = ?", (name,)).fetchone()
        return None if row is None else msgspec.json.decode(row[0])

    def write_note(self, name: str, value: object) -> None:
        """Store a value under a name."""
        self.connection.execute("INSERT OR REPLACE INTO note VALUES (?, ?)", (name, _encode(value)))

    def delete_note(self, name: str) -> None:
        """Delete the value stored under a name."""
        self.connection.execute("DELETE FROM note WHERE name = ?", (name,))

    def put(self, entity: str, key: str, modified: str, record: Mapping[str, Any]) -> bool:
        """Store a record; return whether it is new or different."""
        body = _encode(record)
        known = self.connection.execute(
            "SELECT body FROM record WHERE entity = ? AND key = ?", (entity, key)
        ).fetchone()
        if known is not None and known[0] == body:
            return False
        if known is not None:
            self._mark_affected_due(entity, key)
            self._unlink(entity, key)
        self.connection.execute("INSERT OR REPLACE INTO record VALUES (?, ?, ?, ?)", (entity, key, modified, body))
        links = [(entity, key, *link) for link in find_links(self._dictionary, entity, record)]
        self.connection.executemany("INSERT OR IGNORE INTO link VALUES (?, ?, ?, ?, ?)", links)
        self._mark_affected_due(entity, key)
        return True

    def remove(self, entity: str, key: str) -> bool:
        """Remove a record that is gone at the source; return whether it existed."""
        self._mark_affected_due(entity, key)
        self._unlink(entity, key)
        deleted = self.connection.execute("DELETE FROM record WHERE entity = ? AND key = ?", (entity, key))
        return deleted.rowcount > 0

    def _unlink(self, entity: str, key: str) -> None:
        self.connection.execute("DELETE FROM link WHERE entity = ? AND key = ?", (entity, key))

    def _mark_affected_due(self, entity: str, key: str) -> None:
        """Mark as due: a record, the records that refer to it, and what all of these are part of."""
        changed = [(entity, key), *self._referring(entity, key)]
        for record in list(changed):
            changed += self.connection.execute(
                "SELECT to_entity, to_key FROM link WHERE entity = ? AND key = ? AND is_part = 1", record
            ).fetchall()
        self.mark_due(changed)

    def _referring(self, entity: str, key: str) -> list[tuple[str, str]]:
        referring = self.connection.execute(
            "SELECT entity, key FROM link WHERE to_entity = ? AND to_key = ? AND is_part = 0", (entity, key)
        )
        return referring.fetchall()

    def mark_due(self, changed: Iterable[tuple[str, str]]) -> None:
        """Mark records as due for publishing, those of entities that our resources are mapped from."""
        entities = self._dictionary.entities
        self.last_change += 1
        rows = [
            (entity, key, self.last_change)
            for entity, key in changed
            if entity in entities and entities[entity].aliases
        ]
        self.connection.executemany("INSERT OR REPLACE INTO due VALUES (?, ?, ?)", rows)

    def mark_all_due(self) -> None:
        """Mark everything as due, including published records that are gone."""
        by_alias = {alias: name for name, entity in self._dictionary.entities.items() for alias in entity.aliases}
        self.mark_due(self.connection.execute("SELECT entity, key FROM record").fetchall())
        published = self.connection.execute("SELECT alias, key FROM told").fetchall()
        self.mark_due((by_alias[alias], key) for alias, key in published if alias in by_alias)

    def due_keys(self, entity: str, after: str, limit: int) -> list[str]:
        """Return the next keys that are due after a key, ascending."""
        rows = self.connection.execute(
            "SELECT key FROM due WHERE entity = ? AND key > ? ORDER BY key LIMIT ?", (entity, after, limit)
        )
        return [key for (key,) in rows]

    def clear_due(self, change: int) -> None:
        """Clear what was due up to a change."""
        self.connection.execute("DELETE FROM due WHERE change <= ?", (change,))

    def count(self, table: str, entity: str | None = None) -> int:
        """Return the number of rows of a table (`record` or `due`), of one entity or of all."""
        query = f"SELECT count(*) FROM {table}" + ("" if entity is None else " WHERE entity = ?")  # noqa: S608 - our own names
        return int(self.connection.execute(query, () if entity is None else (entity,)).fetchone()[0])

    def record(self, entity: str, key: str) -> dict[str, Any] | None:
        """Return a record, None if it is missing."""
        row = self.connection.execute("SELECT body FROM record WHERE entity = ? AND key = ?", (entity, key)).fetchone()
        return None if row is None else _decode(row[0])

    def parts(self, entity: str, of: str, key: str) -> list[dict[str, Any]]:
        """Return an entity's records that are part of the record `key` of the entity `of`, sorted by key."""
        rows = self.connection.execute(
            # CROSS JOIN fixes the join order: starting from all links of the entity takes a hundred times as long.
            "SELECT body FROM link CROSS JOIN record ON record.entity = link.entity AND record.key = link.key"
            " WHERE to_entity = ? AND to_key = ? AND is_part = 1 AND link.entity = ? ORDER BY link.key",
            (of, key, entity),
        )
        return [_decode(body) for (body,) in rows]

    def part_keys(self, entity: str, of: str, key: str) -> list[str]:
        """Return the keys of an entity's records that are part of the record `key` of the entity `of`."""
        rows = self.connection.execute(
            "SELECT key FROM link WHERE to_entity = ? AND to_key = ? AND is_part = 1 AND entity = ?", (of, key, entity)
        )
        return [part for (part,) in rows]

    def keys(self, entity: str, after: str, limit: int) -> list[str]:
        """Return the next keys of an entity after a key, ascending."""
        rows = self.connection.execute(
            "SELECT key FROM record WHERE entity = ? AND key > ? ORDER BY key LIMIT ?", (entity, after, limit)
        )
        return [key for (key,) in rows]

    def modification_times(self, entity: str, keys: Sequence[str]) -> dict[str, str]:
        """Return the modification timestamps of the given keys that are in the mirror."""
        placeholders = ",".join("?" * len(keys))
        query = f"SELECT key, modified FROM record WHERE entity = ? AND key IN ({placeholders})"  # noqa: S608
        return dict(self.connection.execute(query, (entity, *keys)).fetchall())
