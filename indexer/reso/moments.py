"""Days, moments and times of day as sources write them, brought to the one form that is served.

Each function returns None where there is no value and raises LeftOut for what is none of its kind, or lies outside the
years 1900 to 2200: `0001-01-01T00:00:00Z` is what some programs write for nothing.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING

from indexer.reso.left_out import LeftOut, shown
from indexer.reso.texts import given

if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST_YEAR, _LAST_YEAR = 1900, 2200
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = r"([0-9]{2}:[0-9]{2})(:[0-9]{2})?(\.[0-9]+)?"
_TIME_OF_DAY = re.compile(_TIME)
_MOMENT = re.compile(rf"({_DAY.pattern})[Tt ]{_TIME} ?([Zz]|[+-][0-9]{{2}}:?[0-9]{{2}})?")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SECOND = dt.timedelta(seconds=1)
# Seconds from 1970 to the end of 2200, what a number can mean where a moment is asked for.
_LAST_SECOND = (dt.datetime(_LAST_YEAR + 1, 1, 1, tzinfo=dt.UTC) - _EPOCH) // _SECOND - 1


def day(value: object) -> str | None:
    """Return a day as `YYYY-MM-DD`, of a moment the day as it is written."""
    if (text := _text(value)) is None:
        return None
    if _DAY.fullmatch(text):
        _checked(dt.date.fromisoformat, text, "day")
        return text
    return _moment(text)[:10]


def moment(value: object) -> str | None:
    """Return a moment as ISO 8601 with an offset, Z where the source gives none."""
    text = _text(value)
    return None if text is None else _moment(text)


def instant(value: object) -> dt.datetime | None:
    """Return a moment as a time of the calendar, in the offset in which it is written."""
    text = _text(value)
    return None if text is None else dt.datetime.fromisoformat(_moment(text))


def unix(value: object) -> int | None:
    """Return a moment in whole seconds since 1970; a number is one already."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 <= value <= _LAST_SECOND:
            raise LeftOut(f"is {shown(value)}: no seconds from 1970 to {_LAST_YEAR}")
        return int(value)
    found = instant(value)
    return None if found is None else (found - _EPOCH) // _SECOND


def time_of_day(value: object) -> str | None:
    """Return a time without a day as `HH:MM:SS`, None also for what is a moment."""
    text = _text(value)
    match = text and _TIME_OF_DAY.fullmatch(text)
    if not match:
        return None
    plain = match[1] + (match[2] or ":00")
    _checked(dt.time.fromisoformat, plain, "time of day")
    return plain


def is_local(value: object) -> bool:
    """Whether a text is a moment without an offset, which is meant where it happens."""
    match = _MOMENT.fullmatch(value.strip()) if isinstance(value, str) else None
    return match is not None and match[5] is None


def _text(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise LeftOut(f"is {shown(value)}: no day or moment")
    return given(value)


def _moment(text: str) -> str:
    if (match := _MOMENT.fullmatch(text)) is None:
        raise LeftOut(f"is {shown(text)}: no moment such as 2026-11-20T10:00:00Z")
    date, minute, second, fraction, offset = match.groups()
    written = f"{date}T{minute}{second or ':00'}{(fraction or '')[:10]}{_offset(offset)}"
    _checked(dt.datetime.fromisoformat, written, "moment")
    return written


def _offset(offset: str | None) -> str:
    if offset is None or offset in "Zz":
        return "Z"
    return offset if ":" in offset else f"{offset[:3]}:{offset[3:]}"


def _checked(parse: Callable[[str], object], text: str, kind: str) -> None:
    """Raise LeftOut for what no calendar or clock has."""
    try:
        parsed = parse(text)
    except ValueError:
        raise LeftOut(f"is {shown(text)}: a {kind} that does not exist") from None
    if not _FIRST_YEAR <= getattr(parsed, "year", _FIRST_YEAR) <= _LAST_YEAR:
        raise LeftOut(f"is {shown(text)}: outside the years {_FIRST_YEAR} to {_LAST_YEAR}")
