"""The indexer's clock: how far ahead of it a time of the source may be, and how far it may be from Elasticsearch's.

Stamps of a wrong clock would stay in all published records.
"""

import datetime as dt
import time
from collections.abc import Iterable
from statistics import median

from indexer.errors import ClockError
from indexer.settings import IndexerContext

# What the version of a state counts as if its time cannot be right: older than every other.
UNDATED = -1
_MICROSECONDS = 1_000_000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
# Of an `updated_at`: a version must stay below 2**63.
LAST_MICROSECOND = 2**53 - 1
# A version is the microseconds of `updated_at` times this, plus bits of the content.
VERSIONS_PER_MICROSECOND = 1024
# A new epoch begins at a whole second (`indexer.control`).
_ROUNDED_SECONDS = 1
# By how much Elasticsearch's version of a document is at least above its own, if it replaced a state that is no longer
# in order: one from the future, or a removal that an earlier version wrote. About 18 minutes; any other program that
# writes a document adds one.
REPLACED_VERSION_GAP = 2**40


def now_milliseconds() -> int:
    """Return the time in milliseconds since 1970."""
    return now_microseconds() // 1_000


def now_microseconds() -> int:
    """Return the time in microseconds since 1970."""
    return time.time_ns() // 1_000


def epoch_time(microseconds: int) -> dt.datetime:
    """Return the date-time of microseconds since 1970."""
    return _EPOCH + microseconds * _MICROSECOND


def epoch_microseconds(value: dt.datetime) -> int:
    """Return a date-time in microseconds since 1970."""
    return (value - _EPOCH) // _MICROSECOND


def epoch_milliseconds(value: dt.datetime) -> int:
    """Return a date-time in whole milliseconds since 1970."""
    return (value - _EPOCH) // (1000 * _MICROSECOND)


def latest_microseconds(future_seconds: float) -> float:
    """Return the latest time that a source can mean, in microseconds since 1970."""
    return now_microseconds() + future_seconds * _MICROSECONDS


def version_microseconds(version: int) -> int:
    """Return the time of a version in microseconds since 1970."""
    return version // VERSIONS_PER_MICROSECOND


def version_time(version: int) -> str:
    """Return the time of a version, ISO 8601 in UTC, with as many decimals as it has."""
    at = epoch_time(version_microseconds(version))
    decimals = "seconds" if not at.microsecond else "microseconds" if at.microsecond % 1000 else "milliseconds"
    return f"{at.replace(tzinfo=None).isoformat(timespec=decimals)}Z"


def first_future_version(future_seconds: float) -> int:
    """Return the lowest version whose time is later than a source can mean."""
    return int(min(latest_microseconds(future_seconds) + 1, LAST_MICROSECOND)) * VERSIONS_PER_MICROSECOND


def is_ahead(milliseconds: int, clock_seconds: float) -> bool:
    """Whether a watermark, in milliseconds since 1970, is further ahead than any whose run compared its clock.

    A watermark is at most `clock_seconds` ahead of Elasticsearch's clock, and this host's may be as much behind it.
    """
    return milliseconds > now_milliseconds() + 2 * (clock_seconds + _ROUNDED_SECONDS) * 1000


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
        before = now_milliseconds()
        stats = await self._context.cluster.nodes.stats(metric="fs", filter_path=_CLOCKS)
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
