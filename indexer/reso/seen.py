"""What came by: keys while all are compared, and the numbers of events that were acted upon."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from indexer.reso.mirror import Mirror


class SeenKeys:
    """Keys of an entity that came by."""

    def __init__(self, mirror: Mirror, entity: str, table: str) -> None:
        """The table is the caller's."""
        self._mirror, self._entity, self._table = mirror, entity, table

    def add(self, keys: Iterable[str]) -> None:
        """Note that keys came by."""
        with self._mirror.transaction():
            insert = f"INSERT OR IGNORE INTO {self._table} VALUES (?)"  # noqa: S608 - the name is ours
            self._mirror.base.executemany(insert, ((key,) for key in keys))

    def missing(self) -> list[str]:
        """Return the keys of known records that did not."""
        query = f"SELECT key FROM record WHERE entity = ? AND key NOT IN {self._table} ORDER BY key"  # noqa: S608
        return [key for (key,) in self._mirror.base.execute(query, (self._entity,))]


@contextmanager
def seen_keys(mirror: Mirror, entity: str) -> Iterator[SeenKeys]:
    """Keep which keys of an entity came by, on disk, for as long as it takes."""
    table = f"seen_{entity}"
    mirror.base.execute(f"CREATE TEMP TABLE {table} (key TEXT PRIMARY KEY) WITHOUT ROWID")
    try:
        yield SeenKeys(mirror, entity, table)
    finally:
        mirror.base.execute(f"DROP TABLE {table}")


class SeenEvents:
    """Numbers of events that were acted upon, as far back as they are asked for again."""

    def __init__(self, mirror: Mirror) -> None:
        """Read nothing yet."""
        self._base = mirror.base

    def unseen(self, numbers: Sequence[int]) -> set[int]:
        """Return those that were not acted upon yet."""
        marks = ",".join("?" * len(numbers))
        query = f"SELECT sequence FROM event WHERE sequence IN ({marks})"  # noqa: S608 - marks only
        return set(numbers) - {number for (number,) in self._base.execute(query, tuple(numbers))}

    def add(self, numbers: Iterable[int], *, forget_below: int) -> None:
        """Note that events were acted upon, within a transaction of the caller's, and forget what lies too far back."""
        self._base.executemany("INSERT OR IGNORE INTO event VALUES (?)", ((each,) for each in numbers))
        self._base.execute("DELETE FROM event WHERE sequence < ?", (forget_below,))
