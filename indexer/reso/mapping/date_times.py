"""Dates, timestamps, times of day and time zones, converted from source formats to the served ones.

Each converter returns None if there is no value. It raises UnmappableValue for a value of another kind or outside the
years 1900 to 2200: some programs write `0001-01-01T00:00:00Z` for null.
"""

import datetime as dt
import re
from collections.abc import Callable
from functools import lru_cache
from zoneinfo import ZoneInfo

from indexer.reso.mapping.source_values import UnmappableValue, clean_text, describe_value

_FIRST_YEAR, _LAST_YEAR = 1900, 2200
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = r"([0-9]{2}:[0-9]{2})(:[0-9]{2})?(\.[0-9]+)?"
_TIME_OF_DAY = re.compile(_TIME)
_TIMESTAMP = re.compile(rf"({_DATE.pattern})[Tt ]{_TIME} ?([Zz]|[+-][0-9]{{2}}:?[0-9]{{2}})?")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SECOND = dt.timedelta(seconds=1)
# The end of 2200 in seconds since 1970.
_MAX_UNIX_SECONDS = (dt.datetime(_LAST_YEAR + 1, 1, 1, tzinfo=dt.UTC) - _EPOCH) // _SECOND - 1


def to_date(value: object) -> str | None:
    """Return a date as `YYYY-MM-DD`; of a timestamp, the date part."""
    if (text := _clean_text(value)) is None:
        return None
    if _DATE.fullmatch(text):
        _require_valid(dt.date.fromisoformat, text, "date")
        return text
    return _timestamp(text)[:10]


def to_timestamp(value: object) -> str | None:
    """Return a timestamp in ISO 8601 with its offset, Z if the source gives none."""
    text = _clean_text(value)
    return None if text is None else _timestamp(text)


def to_datetime(value: object) -> dt.datetime | None:
    """Return a timestamp as a datetime with its offset, UTC if the source gives none."""
    text = _clean_text(value)
    return None if text is None else dt.datetime.fromisoformat(_timestamp(text))


def to_unix_seconds(value: object) -> int | None:
    """Return a timestamp in whole seconds since 1970; a number is taken as seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 <= value <= _MAX_UNIX_SECONDS:
            raise UnmappableValue(f"is {describe_value(value)}: not seconds between 1970 and {_LAST_YEAR}")
        return int(value)
    converted = to_datetime(value)
    return None if converted is None else (converted - _EPOCH) // _SECOND


def to_time_of_day(value: object) -> str | None:
    """Return a time of day as `HH:MM:SS`, None for a timestamp or any other text."""
    text = _clean_text(value)
    match = text and _TIME_OF_DAY.fullmatch(text)
    if not match:
        return None
    time = match[1] + (match[2] or ":00")
    _require_valid(dt.time.fromisoformat, time, "time of day")
    return time


def is_without_offset(value: object) -> bool:
    """Whether a value is a timestamp without an offset, that is, in local time."""
    match = _TIMESTAMP.fullmatch(value.strip()) if isinstance(value, str) else None
    return match is not None and match[5] is None


def _clean_text(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise UnmappableValue(f"is {describe_value(value)}: not a date or timestamp")
    return clean_text(value)


def _timestamp(text: str) -> str:
    if (match := _TIMESTAMP.fullmatch(text)) is None:
        raise UnmappableValue(f"is {describe_value(text)}: not a timestamp such as 2026-11-20T10:00:00Z")
    date, minute, second, fraction, offset = match.groups()
    timestamp = f"{date}T{minute}{second or ':00'}{(fraction or '')[:10]}{_offset(offset)}"
    _require_valid(dt.datetime.fromisoformat, timestamp, "timestamp")
    return timestamp


def _offset(offset: str | None) -> str:
    if offset is None or offset in "Zz":
        return "Z"
    return offset if ":" in offset else f"{offset[:3]}:{offset[3:]}"


def _require_valid(parse: Callable[[str], object], text: str, kind: str) -> None:
    """Raise UnmappableValue for a value that does not exist or is out of range."""
    try:
        parsed = parse(text)
    except ValueError:
        raise UnmappableValue(f"is {describe_value(text)}: a {kind} that does not exist") from None
    if not _FIRST_YEAR <= getattr(parsed, "year", _FIRST_YEAR) <= _LAST_YEAR:
        raise UnmappableValue(f"is {describe_value(text)}: outside the years {_FIRST_YEAR} to {_LAST_YEAR}")


@lru_cache(1024)
def find_time_zone(name: str) -> ZoneInfo | None:
    """Return an IANA time zone, None for an unknown name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # OSError: names of folders, and names that no file can have
        return None
