"""This host's clock compared with Elasticsearch's: stamps of a wrong clock would stay in all published records."""

import time
from collections.abc import Iterable
from statistics import median

from indexer.clock import now_milliseconds
from indexer.context import IndexerContext
from indexer.errors import ClockError
from indexer.indices.backoff import retry

_CLOCKS = "nodes.*.timestamp"
_LONGEST_LEAD = 86_400_000  # milliseconds, however much clocks may differ


class ClockWatch:
    """Compares the clocks, and compares them again when this host's has been set."""

    def __init__(self, context: IndexerContext) -> None:
        self._context = context
        self._tolerated = context.settings.clock_seconds * 1000
        # In milliseconds, at the last comparison: how far ahead of Elasticsearch's clock, and of the monotonic one.
        self._ahead = 0.0
        self._offset = _wall_offset()

    async def check(self) -> None:
        """Raise ClockError if the clocks differ by more than BROKERAGE_CLOCK_SECONDS."""
        client, seconds = self._context.client, self._context.settings.retry_seconds
        before = now_milliseconds()
        stats = await retry(lambda: client.nodes.stats(metric="fs", filter_path=_CLOCKS), seconds)
        ahead = milliseconds_ahead((node["timestamp"] for node in stats["nodes"].values()), before, now_milliseconds())
        self._require(ahead)
        self._ahead, self._offset = ahead, _wall_offset()

    async def check_if_set(self) -> None:
        """Compare the clocks again if this host's has been set since; raise as `check`."""
        if abs(self._present()) > self._tolerated:
            await self.check()

    def now(self) -> int:
        """Return the time in milliseconds since 1970; raise ClockError if the clock has been set to a wrong one."""
        self._require(self._present())
        return now_milliseconds()

    def latest_mark(self) -> int:
        """Return the latest clock of a watermark that any run can have published until now, as `now` does."""
        return int(self.now() - self._present() + min(self._tolerated, _LONGEST_LEAD))

    def _present(self) -> float:
        """Return how far ahead of Elasticsearch's clock this host's is, by what it was set since the comparison."""
        return self._ahead + _wall_offset() - self._offset

    def _require(self, ahead: float) -> None:
        if abs(ahead) > self._tolerated:
            raise ClockError(_sentence(ahead / 1000, self._context.settings.clock_seconds))


def milliseconds_ahead(clocks: Iterable[int], before: int, after: int) -> float:
    """Return how far this host is ahead of most nodes (negative: behind); `before` and `after` are its own times.

    What the request itself may have taken does not count.
    """
    return float(median(max(before - clock, 0) - max(clock - after, 0) for clock in clocks))


def _wall_offset() -> float:
    return now_milliseconds() - time.monotonic() * 1000


def _sentence(seconds: float, tolerated: float) -> str:
    direction = "ahead of" if seconds > 0 else "behind"
    return (
        f"This host's clock is {abs(seconds):,.0f} s {direction} Elasticsearch's, more than the {tolerated:g} s of "
        "BROKERAGE_CLOCK_SECONDS. Nothing more was published: synchronize both clocks with the same time server, then "
        "run the command again."
    )
