"""The version last sent of each record, and the versions that the index held before the mirror existed."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from indexer.reso.mirror.mirror_store import Mirror


class SentVersion(NamedTuple):
    """A version of a record: `updated_at` in microseconds since 1970, and a digest, None for a deletion."""

    identifier: str
    updated_at: int
    digest: bytes | None


class SentLog:
    """The sent versions in a mirror: a new version must be newer than the last one sent."""

    def __init__(self, mirror: Mirror) -> None:
        """Use the mirror's connection."""
        self._connection = mirror.connection

    def last(self, alias: str, key: str) -> SentVersion | None:
        """Return the last version sent of the record with a source key, None if none was."""
        row = self._connection.execute(
            "SELECT identifier, updated_at, digest FROM told WHERE alias = ? AND key = ?", (alias, key)
        ).fetchone()
        return None if row is None else SentVersion(*row)

    def store(self, alias: str, key: str, version: SentVersion) -> None:
        """Store a version before it is sent, within the caller's transaction."""
        self._connection.execute("INSERT OR REPLACE INTO told VALUES (?, ?, ?, ?, ?)", (alias, key, *version))

    def store_indexed(self, alias: str, rows: Iterable[tuple[str, int, bool]]) -> None:
        """Store versions that the index holds: identifier, `updated_at` in microseconds, and whether it is deleted."""
        values = ((alias, *row) for row in rows)
        self._connection.executemany("INSERT OR REPLACE INTO found VALUES (?, ?, ?, ?)", values)

    def indexed_version(self, alias: str, identifier: str) -> int:
        """Return the `updated_at` that the index held of a record, 0 if it had none."""
        row = self._connection.execute(
            "SELECT updated_at FROM found WHERE alias = ? AND identifier = ?", (alias, identifier)
        ).fetchone()
        return 0 if row is None else int(row[0])

    def live_indexed_version(self, alias: str, identifier: str) -> int | None:
        """Return the `updated_at` that the index held of a record, None if it had none or a deleted one."""
        row = self._connection.execute(
            "SELECT updated_at FROM found WHERE alias = ? AND identifier = ? AND NOT deleted", (alias, identifier)
        ).fetchone()
        return None if row is None else int(row[0])

    def count_unmatched(self) -> tuple[int, int]:
        """Return how many records of the index were never sent, and how many it held."""
        row = self._connection.execute(
            "SELECT count(*) FILTER (WHERE identifier NOT IN (SELECT identifier FROM told"
            " WHERE told.alias = found.alias)), count(*) FROM found WHERE NOT deleted"
        ).fetchone()
        return int(row[0]), int(row[1])

    def mark_unmatched_deleted(self) -> None:
        """Mark the records of the index that were never sent as deleted, within the caller's transaction."""
        self._connection.execute(
            "UPDATE found SET deleted = 1 WHERE identifier NOT IN"
            " (SELECT identifier FROM told WHERE told.alias = found.alias)"
        )

    def unmatched(self, alias: str) -> Iterator[tuple[str, int]]:
        """Yield identifier and `updated_at` of the records of the index that were never sent."""
        yield from self._connection.execute(
            "SELECT identifier, updated_at FROM found WHERE alias = ? AND NOT deleted AND identifier NOT IN"
            " (SELECT identifier FROM told WHERE told.alias = found.alias) ORDER BY identifier",
            (alias,),
        ).fetchall()
