"""What was last said of each record, so that what is said next is newer, and what was found in the index before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from indexer.reso.mirror import Mirror


class Told(NamedTuple):
    """What was last said of a record: as of when, in microseconds since 1970, and a digest; None for a deletion."""

    identifier: str
    updated_at: int
    digest: bytes | None


class Tellings:
    """The part of a mirror that is about what went out."""

    def __init__(self, mirror: Mirror) -> None:
        """Read nothing yet."""
        self._base = mirror.base

    def last(self, alias: str, key: str) -> Told | None:
        """Return what was last said of the record that is made of a key."""
        row = self._base.execute(
            "SELECT identifier, updated_at, digest FROM told WHERE alias = ? AND key = ?", (alias, key)
        ).fetchone()
        return None if row is None else Told(*row)

    def keep(self, alias: str, key: str, told: Told) -> None:
        """Keep what is about to be said, within a transaction of the caller's."""
        self._base.execute("INSERT OR REPLACE INTO told VALUES (?, ?, ?, ?, ?)", (alias, key, *told))

    def find(self, alias: str, rows: Iterable[tuple[str, int, bool]]) -> None:
        """Keep what the index held before: identifier, as of when in microseconds, and whether it is deleted."""
        each = ((alias, *row) for row in rows)
        self._base.executemany("INSERT OR REPLACE INTO found VALUES (?, ?, ?, ?)", each)

    def found(self, alias: str, identifier: str) -> int:
        """Return as of when the index held a record before, 0 where it did not."""
        row = self._base.execute(
            "SELECT updated_at FROM found WHERE alias = ? AND identifier = ?", (alias, identifier)
        ).fetchone()
        return 0 if row is None else int(row[0])

    def found_live(self, alias: str, identifier: str) -> int | None:
        """Return as of when the index held a record before that was not deleted, None where it did not."""
        row = self._base.execute(
            "SELECT updated_at FROM found WHERE alias = ? AND identifier = ? AND NOT deleted", (alias, identifier)
        ).fetchone()
        return None if row is None else int(row[0])

    def left_over_of(self) -> tuple[int, int]:
        """Return how many records that the index held before nothing was ever said of, and how many it held."""
        row = self._base.execute(
            "SELECT count(*) FILTER (WHERE identifier NOT IN (SELECT identifier FROM told"
            " WHERE told.alias = found.alias)), count(*) FROM found WHERE NOT deleted"
        ).fetchone()
        return int(row[0]), int(row[1])

    def close_left_over(self) -> None:
        """Take those records as deleted, within a transaction of the caller's."""
        self._base.execute(
            "UPDATE found SET deleted = 1 WHERE identifier NOT IN"
            " (SELECT identifier FROM told WHERE told.alias = found.alias)"
        )

    def left_over(self, alias: str) -> Iterator[tuple[str, int]]:
        """Yield the records that the index held before and that nothing was ever said of: identifier and as of when."""
        yield from self._base.execute(
            "SELECT identifier, updated_at FROM found WHERE alias = ? AND NOT deleted AND identifier NOT IN"
            " (SELECT identifier FROM told WHERE told.alias = found.alias) ORDER BY identifier",
            (alias,),
        ).fetchall()
