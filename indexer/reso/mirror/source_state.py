"""What a client keeps with the mirror of its source: the numbers of requests and bytes, and the refresh token."""

from collections.abc import Iterable

from indexer.reso.client.kept_state import KeptState
from indexer.reso.client.request_windows import SlotCount
from indexer.reso.client.source_limits import SourceLimits
from indexer.reso.mirror.mirror_store import Mirror

_TABLE = "CREATE TABLE IF NOT EXISTS request (slot INTEGER PRIMARY KEY, requests INTEGER, bytes INTEGER)"
_ADD = (
    "INSERT INTO request VALUES (?, ?, ?) ON CONFLICT (slot) DO UPDATE"
    " SET requests = requests + excluded.requests, bytes = bytes + excluded.bytes"
)
_TOKEN_NOTE = "refresh token"  # noqa: S105 - the name of a note


def kept_state(mirror: Mirror, limits: SourceLimits) -> KeptState:
    """Return what is kept in a mirror."""
    return KeptState(limits, RequestCounts(mirror), RefreshTokens(mirror))


class RequestCounts:
    """A store of request counts in a mirror."""

    def __init__(self, mirror: Mirror) -> None:
        """Create the table if it is missing."""
        self._mirror = mirror
        mirror.connection.execute(_TABLE)

    def load(self) -> Iterable[SlotCount]:
        """Return the counts of earlier runs, ascending."""
        rows = self._mirror.connection.execute("SELECT slot, requests, bytes FROM request ORDER BY slot")
        return [SlotCount(*row) for row in rows]

    def add(self, count: SlotCount, forget_below: int) -> None:
        """Add to the count of a slot, and delete the slots below a number."""
        with self._mirror.transaction():
            self._mirror.connection.execute(_ADD, count)
            self._mirror.connection.execute("DELETE FROM request WHERE slot < ?", (forget_below,))


class RefreshTokens:
    """A store of the refresh token in a mirror, which only its owner can read."""

    def __init__(self, mirror: Mirror) -> None:
        """Use the notes of a mirror."""
        self._mirror = mirror

    def load(self, given: str) -> str | None:
        """Return the token that followed, last, the one of the settings with this digest."""
        noted = self._mirror.read_note(_TOKEN_NOTE) or {}
        return str(noted["token"]) if noted.get("given") == given else None

    def save(self, given: str, token: str) -> None:
        """Keep a token."""
        with self._mirror.transaction():
            self._mirror.write_note(_TOKEN_NOTE, {"given": given, "token": token})
