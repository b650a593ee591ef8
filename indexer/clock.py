"""The indexer's clock, and how far ahead of it a time of the source may be."""

import datetime as dt
import time

# What the version of a state counts as if its time cannot be right: older than every other.
UNDATED = -1
_MICROSECONDS = 1_000_000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# Of an `updated_at`: a version must stay below 2**63.
LAST_MICROSECOND = 2**53 - 1
# A version is the microseconds of `updated_at` times this, plus bits of the content.
VERSIONS_PER_MICROSECOND = 1024
# A new life begins at a whole second (`indexer.control.lives`).
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


def latest_microseconds(future_seconds: float) -> float:
    """Return the latest time that a source can mean, in microseconds since 1970."""
    return now_microseconds() + future_seconds * _MICROSECONDS


def version_microseconds(version: int) -> int:
    """Return the time of a version in microseconds since 1970."""
    return version // VERSIONS_PER_MICROSECOND


def version_time(version: int) -> str:
    """Return the time of a version, ISO 8601 in UTC to the microsecond."""
    moment = _EPOCH + dt.timedelta(microseconds=version_microseconds(version))
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def first_future_version(future_seconds: float) -> int:
    """Return the lowest version whose time is later than a source can mean."""
    return int(min(latest_microseconds(future_seconds) + 1, LAST_MICROSECOND)) * VERSIONS_PER_MICROSECOND


def is_ahead(milliseconds: int, clock_seconds: float) -> bool:
    """Whether a watermark, in milliseconds since 1970, is further ahead than any whose run compared its clock.

    A watermark is at most `clock_seconds` ahead of Elasticsearch's clock, and this host's may be as much behind it.
    """
    return milliseconds > now_milliseconds() + 2 * (clock_seconds + _ROUNDED_SECONDS) * 1000
