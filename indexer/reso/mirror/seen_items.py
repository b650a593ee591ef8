"""Items already seen: keys during a comparison, and sequence numbers of applied events."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from indexer.reso.mirror.mirror_store import Mirror


class SeenKeys:
    """The keys of an entity that a comparison has seen so far."""

    def __init__(self, mirror: Mirror, entity: str, table: str) -> None:
        """Take a table that the caller creates and drops."""
        self._mirror, self._entity, self._table = mirror, entity, table

    def add(self, keys: Iterable[str]) -> None:
        """Record keys as seen."""
        with self._mirror.transaction():
            insert = f"INSERT OR IGNORE INTO {self._table} VALUES (?)"  # noqa: S608 - our own table name
            self._mirror.connection.executemany(insert, ((key,) for key in keys))

    def count(self) -> int:
        """Return the number of keys seen."""
        return int(self._mirror.connection.execute(f"SELECT count(*) FROM {self._table}").fetchone()[0])  # noqa: S608

    def missing(self) -> list[str]:
        """Return the keys in the mirror that were not seen."""
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


class SeenEvents:
    """The sequence numbers of applied events, within the margin that each pass reads again."""

    def __init__(self, mirror: Mirror) -> None:
        """Use the mirror's connection."""
        self._connection = mirror.connection

    def unseen(self, numbers: Sequence[int]) -> set[int]:
        """Return the numbers that were not applied yet."""
        placeholders = ",".join("?" * len(numbers))
        query = f"SELECT sequence FROM event WHERE sequence IN ({placeholders})"  # noqa: S608 - placeholders only
        return set(numbers) - {number for (number,) in self._connection.execute(query, tuple(numbers))}

    def add(self, numbers: Iterable[int], *, forget_below: int) -> None:
        """Record numbers as applied, within the caller's transaction, and delete those below the margin."""
        self._connection.executemany("INSERT OR IGNORE INTO event VALUES (?)", ((number,) for number in numbers))
        self._connection.execute("DELETE FROM event WHERE sequence < ?", (forget_below,))
