"""Dates and times of day as exports write them: `strptime` formats, and the time zone of a text without an offset."""

import datetime as dt
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeVar
from zoneinfo import ZoneInfo

Value = TypeVar("Value")

# Parsing a date by a format takes 5 to 10 µs, a number 1 to 2 µs, and exports repeat few of them often.
_CACHED_TEXTS = 4_096
_CACHED_CHARACTERS = 40


# Among formats, for columns that mix ISO 8601 with others.
ISO = "ISO"


def date_converter(formats: Sequence[str]) -> Callable[[str], str]:
    """Return the function that converts a text to `YYYY-MM-DD`; its ValueError completes "the text ..."."""
    return cached(lambda text: parsed_time(text, formats).date().isoformat())


def date_time_converter(formats: Sequence[str], time_zone: ZoneInfo | dt.timezone) -> Callable[[str], str]:
    """Return the function that converts a text to ISO 8601 with an offset; texts without one are in `time_zone`."""
    return cached(lambda text: _with_offset(parsed_time(text, formats), time_zone).isoformat())


def unix_converter(formats: Sequence[str], time_zone: ZoneInfo | dt.timezone) -> Callable[[str], int]:
    """Return the function that converts a text to whole seconds since 1970."""
    return cached(lambda text: int(_with_offset(parsed_time(text, formats), time_zone).timestamp()))


def time_converter(formats: Sequence[str]) -> Callable[[str], str]:
    """Return the function that converts the time of day in a text to `HH:MM:SS`."""
    return cached(lambda text: parsed_time(text, formats).strftime("%H:%M:%S"))


def cached(convert: Callable[[str], Value]) -> Callable[[str], Value]:
    """Return a conversion that remembers its last short texts."""
    remembered = lru_cache(_CACHED_TEXTS)(convert)
    return lambda text: remembered(text) if len(text) <= _CACHED_CHARACTERS else convert(text)


def parsed_time(text: str, formats: Sequence[str]) -> dt.datetime:
    """Return the date-time of a text by the first format that fits, or by ISO 8601 without formats."""
    try:
        if not formats:
            return dt.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("is not an ISO 8601 date") from None
    for one in formats:
        try:
            if one == ISO:
                return dt.datetime.fromisoformat(text)
            return dt.datetime.strptime(text, one)  # noqa: DTZ007 - see _with_offset
        except ValueError:
            continue
    raise ValueError(f"does not match the format {' or '.join(formats)}")


def _with_offset(value: dt.datetime, time_zone: ZoneInfo | dt.timezone) -> dt.datetime:
    return value if value.tzinfo else value.replace(tzinfo=time_zone)
