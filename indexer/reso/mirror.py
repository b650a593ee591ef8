"""The mirror of a source in one SQLite file: its records, the links between them, and the changes to publish.

Records and checkpoints are written in one transaction, so a kill at any point loses nothing. Beside them are the keys
and events already seen, when ranges of keys were last compared, and what the client keeps: its request counts and the
refresh token.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from cluster.private_files import create_file, make_folder
from mappings.data_dictionary import DataDictionary

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
        self.connection.execute("INSERT OR REPLACE INTO note VALUES (?, ?)", (name, _encode(value)))

    def delete_note(self, name: str) -> None:
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
        self.connection.execute("DELETE FROM due WHERE change <= ?", (change,))

    def count(self, table: str, entity: str | None = None) -> int:
        """Return the number of rows of a table (`record` or `due`), of one entity or of all."""
        query = f"SELECT count(*) FROM {table}" + ("" if entity is None else " WHERE entity = ?")  # noqa: S608 - our own names
        return int(self.connection.execute(query, () if entity is None else (entity,)).fetchone()[0])

    def record(self, entity: str, key: str) -> dict[str, Any] | None:
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
        placeholders = ",".join("?" * len(keys))
        query = f"SELECT key, modified FROM record WHERE entity = ? AND key IN ({placeholders})"  # noqa: S608
        return dict(self.connection.execute(query, (entity, *keys)).fetchall())

    def unseen_events(self, numbers: Sequence[int]) -> set[int]:
        """Return the sequence numbers of events that were not applied yet."""
        placeholders = ",".join("?" * len(numbers))
        query = f"SELECT sequence FROM event WHERE sequence IN ({placeholders})"  # noqa: S608 - placeholders only
        return set(numbers) - {number for (number,) in self.connection.execute(query, tuple(numbers))}

    def add_events(self, numbers: Iterable[int], *, forget_below: int) -> None:
        """Record events as applied, within the caller's transaction, and delete those below the margin."""
        self.connection.executemany("INSERT OR IGNORE INTO event VALUES (?)", ((number,) for number in numbers))
        self.connection.execute("DELETE FROM event WHERE sequence < ?", (forget_below,))


# Of a numeric key; Python refuses to print much longer ones.
_MAX_KEY_BITS = 256


class RecordLink(NamedTuple):
    """The target of a link. `is_part`: the record belongs to the target; else it shows values of it."""

    is_part: bool
    entity: str
    key: str


def find_links(dictionary: DataDictionary, entity: str, record: Mapping[str, Any]) -> Iterator[RecordLink]:
    """Yield the links of a record; a target may be missing in the mirror."""
    declared = dictionary.entities[entity]
    for field, target in declared.part_of.items():
        # The target is an entity, or a field that holds the name of one.
        name = target if target in dictionary.entities else record.get(target)
        if isinstance(name, str) and (key := key_text(record.get(field))):
            yield RecordLink(is_part=True, entity=name, key=key)
    for field, target in declared.refers_to.items():
        if key := key_text(record.get(field)):
            yield RecordLink(is_part=False, entity=target, key=key)


def key_text(value: object) -> str:
    """Return a key, a text or a number, as text; empty for anything else."""
    if isinstance(value, int):
        return str(value) if not isinstance(value, bool) and value.bit_length() <= _MAX_KEY_BITS else ""
    return value if isinstance(value, str) else ""


class SeenKeys:
    """The keys of an entity that a comparison has seen so far."""

    def __init__(self, mirror: Mirror, entity: str, table: str) -> None:
        self._mirror, self._entity, self._table = mirror, entity, table

    def add(self, keys: Iterable[str]) -> None:
        with self._mirror.transaction():
            insert = f"INSERT OR IGNORE INTO {self._table} VALUES (?)"  # noqa: S608 - our own table name
            self._mirror.connection.executemany(insert, ((key,) for key in keys))

    def count(self) -> int:
        return int(self._mirror.connection.execute(f"SELECT count(*) FROM {self._table}").fetchone()[0])  # noqa: S608

    def missing(self) -> list[str]:
        query = f"SELECT key FROM record WHERE entity = ? AND key NOT IN {self._table} ORDER BY key"  # noqa: S608
        return [key for (key,) in self._mirror.connection.execute(query, (self._entity,))]


@contextmanager
def seen_keys(mirror: Mirror, entity: str) -> Iterator[SeenKeys]:
    """Provide a set of seen keys in a temporary table, because it may not fit in memory."""
    table = f"seen_{entity}"
    mirror.connection.execute(f"CREATE TEMP TABLE {table} (key TEXT PRIMARY KEY) WITHOUT ROWID")
    try:
        yield SeenKeys(mirror, entity, table)
    finally:
        mirror.connection.execute(f"DROP TABLE {table}")


# Above all keys.
END = "\U0010ffff"
_CHECKED_TABLE = (
    "CREATE TABLE IF NOT EXISTS checked (entity TEXT, upto TEXT, at REAL, PRIMARY KEY (entity, upto)) WITHOUT ROWID"
)


class CheckedRanges:
    """The ranges of the keys of one entity. Keys compare as texts; times are seconds since 1970."""

    def __init__(self, mirror: Mirror, entity: str) -> None:
        self._connection, self._entity = mirror.connection, entity
        self._connection.execute(_CHECKED_TABLE)

    def record(self, after: str, upto: str, at: float) -> None:
        """Record when the keys after one, up to another, were compared; in the caller's transaction."""
        within = (self._entity, after, upto)
        self._connection.execute("DELETE FROM checked WHERE entity = ? AND upto > ? AND upto <= ?", within)
        self._connection.execute("INSERT INTO checked VALUES (?, ?, ?)", (self._entity, upto, at))

    def oldest(self) -> float | None:
        """Return when the keys that were compared longest ago were compared, None if some never were."""
        row = self._connection.execute(
            "SELECT min(at), max(upto) FROM checked WHERE entity = ?", (self._entity,)
        ).fetchone()
        return float(row[0]) if row[1] == END else None


_REQUEST_TABLE = "CREATE TABLE IF NOT EXISTS request (slot INTEGER PRIMARY KEY, requests INTEGER, bytes INTEGER)"
_ADD_REQUESTS = (
    "INSERT INTO request VALUES (?, ?, ?) ON CONFLICT (slot) DO UPDATE"
    " SET requests = requests + excluded.requests, bytes = bytes + excluded.bytes"
)
_TOKEN_NOTE = "refresh token"  # noqa: S105 - the name of a note


class SlotCount(NamedTuple):
    """What one slot had: `number` is its begin in seconds since 1970, divided by the length of a slot."""

    number: int
    requests: int
    bytes: int


class RequestCounts:
    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        mirror.connection.execute(_REQUEST_TABLE)

    def load(self) -> Iterable[SlotCount]:
        rows = self._mirror.connection.execute("SELECT slot, requests, bytes FROM request ORDER BY slot")
        return [SlotCount(*row) for row in rows]

    def add(self, count: SlotCount, forget_below: int) -> None:
        with self._mirror.transaction():
            self._mirror.connection.execute(_ADD_REQUESTS, count)
            self._mirror.connection.execute("DELETE FROM request WHERE slot < ?", (forget_below,))


class RefreshTokens:
    """The current refresh token, in a file that only its owner can read: a source may accept each only once."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def load(self, given: str) -> str | None:
        """Return the token that followed, last, the one of the settings with this digest."""
        noted = self._mirror.read_note(_TOKEN_NOTE) or {}
        return str(noted["token"]) if noted.get("given") == given else None

    def save(self, given: str, token: str) -> None:
        with self._mirror.transaction():
            self._mirror.write_note(_TOKEN_NOTE, {"given": given, "token": token})
