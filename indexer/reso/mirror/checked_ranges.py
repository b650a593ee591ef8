"""When the keys of a mirror were last compared with the source, by ranges of keys."""

from indexer.reso.mirror.mirror_store import Mirror

# Above all keys.
END = "\U0010ffff"
_TABLE = (
    "CREATE TABLE IF NOT EXISTS checked (entity TEXT, upto TEXT, at REAL, PRIMARY KEY (entity, upto)) WITHOUT ROWID"
)


class CheckedRanges:
    """The ranges of the keys of one entity. Keys compare as texts; times are seconds since 1970."""

    def __init__(self, mirror: Mirror, entity: str) -> None:
        """Create the table if it is missing."""
        self._connection, self._entity = mirror.connection, entity
        self._connection.execute(_TABLE)

    def record(self, after: str, upto: str, at: float) -> None:
        """Record when the keys after one, up to another, were compared; in the caller's transaction."""
        within = (self._entity, after, upto)
        self._connection.execute("DELETE FROM checked WHERE entity = ? AND upto > ? AND upto <= ?", within)
        self._connection.execute("INSERT INTO checked VALUES (?, ?, ?)", (self._entity, upto, at))

    def record_all(self, at: float) -> None:
        """Record when all keys were compared; in the caller's transaction."""
        self.record("", END, at)

    def oldest(self) -> float | None:
        """Return when the keys that were compared longest ago were compared, None if some never were."""
        row = self._connection.execute(
            "SELECT min(at), max(upto) FROM checked WHERE entity = ?", (self._entity,)
        ).fetchone()
        return float(row[0]) if row[1] == END else None
