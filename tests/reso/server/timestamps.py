"""Moments as the server writes them, `YYYY-MM-DDThh:mm:ss.mmmZ`, and as numbers that can be compared."""

from __future__ import annotations

import datetime as dt
from functools import lru_cache

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_REMEMBERED = 1 << 18


def to_microseconds(value: object) -> int | None:
    """Return microseconds since 1970, or None for what is not a time. Without an offset it is UTC."""
    return _parsed(value) if isinstance(value, str) else None


@lru_cache(maxsize=_REMEMBERED)
def _parsed(text: str) -> int | None:
    try:
        moment = dt.datetime.fromisoformat(text)
        return ((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)) - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        return None


def format_timestamp(ms: int) -> str:
    """Return milliseconds since 1970 as the server writes them."""
    moment = _EPOCH + dt.timedelta(milliseconds=ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def to_milliseconds(text: str) -> int:
    """Return milliseconds since 1970; raise ValueError for what is not a time."""
    found = to_microseconds(text)
    if found is None:
        msg = f"no moment: {text}"
        raise ValueError(msg)
    return found // 1000
