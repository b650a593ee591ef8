"""The indexer's clock."""

from __future__ import annotations

import time


def now_milliseconds() -> int:
    """Return the time in milliseconds since 1970."""
    return now_microseconds() // 1_000


def now_microseconds() -> int:
    """Return the time in microseconds since 1970."""
    return time.time_ns() // 1_000
