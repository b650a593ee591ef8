"""Open houses of a listing: when they are, and what the index has of each.

Records have their local times, and beside the record stands the time zone of the property. Local times are read as
iCalendar reads them (RFC 5545, 3.3.5): one that comes twice, when clocks go back, is the first of the two; one that
never comes, when they go forward, has the offset from before. An end is the first such time that is not before its
start, so it may be on the next day.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Self
from zoneinfo import ZoneInfo

_DAY = dt.timedelta(days=1)


@lru_cache(1024)
def find_time_zone(name: str) -> ZoneInfo | None:
    """Return an IANA time zone, None for an unknown name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # OSError: names of folders, and names that no file can have
        return None


class Instants(NamedTuple):
    """The start and the end of an open house with their offsets; None for what is not known."""

    start: dt.datetime | None = None
    end: dt.datetime | None = None


def instants_of(house: Mapping[str, Any], zone_name: str | None) -> Instants:
    """Return when an open house is: its `Date`, `StartTime` and `EndTime` in a time zone, nothing without one."""
    zone = find_time_zone(zone_name) if zone_name else None
    if zone is None:
        return Instants()
    try:
        local_start, local_end = (_local(house, member) for member in ("StartTime", "EndTime"))
        start, end = (local and local.replace(tzinfo=zone).astimezone(dt.UTC) for local in (local_start, local_end))
        if start and end and local_start and local_end and end < start:
            # In UTC, since Python compares the clocks of two times in one zone.
            days = (local_end.replace(fold=1), local_end + _DAY if local_end < local_start else local_start)
            ends = (day.replace(tzinfo=zone).astimezone(dt.UTC) for day in days)
            end = next(later for later in ends if start <= later)
        return Instants(start and _shown(start, zone), end and _shown(end, zone))
    except (ValueError, OverflowError):  # no such day or time, or at either end of the calendar
        return Instants()


def _local(house: Mapping[str, Any], member: str) -> dt.datetime | None:
    day, time = house.get("Date"), house.get(member)
    return dt.datetime.fromisoformat(f"{day}T{time}") if day and time else None


def _shown(at: dt.datetime, zone: ZoneInfo) -> dt.datetime:
    """Return an instant with the offset of a zone, in UTC if that has seconds, as before time was standardized."""
    local = at.astimezone(zone)
    return at if (local.utcoffset() or _DAY) % dt.timedelta(minutes=1) else local


class Token(NamedTuple):
    """An open house in the index: its day, its start in UTC, and the suffix of its key; empty for what is not known.

    Texts of tokens begin with the day, then have the start. So a range of days is a range of texts, and a range of
    starts one on each day that it touches, of which there are three at most. Those without a start begin with a hyphen,
    which comes before all digits. The tokens of a listing differ.
    """

    day: str
    start: str
    suffix: str

    @classmethod
    def of(cls, suffix: str, day: object, start: object, end: object, zone_name: str | None) -> Self:
        """Return the token of an open house, whose times are local ones of a time zone."""
        return cls(*_day_and_start(day, start, end, zone_name), suffix)

    @classmethod
    def read(cls, text: str) -> Self:
        """Return a token of the search field."""
        first, second, suffix = text.split("-", 2)
        return cls(first, second, suffix) if first else cls(second, "", suffix)

    @property
    def text(self) -> str:
        """The token as the search field has it."""
        return f"{self.day}-{self.start}-{self.suffix}" if self.start else f"-{self.day}-{self.suffix}"


@lru_cache(4096)
def _day_and_start(day: object, start: object, end: object, zone_name: str | None) -> tuple[str, str]:
    instants = instants_of({"Date": day, "StartTime": start, "EndTime": end}, zone_name)
    digits = "".join(filter(str.isdigit, str(day or "")))
    return digits, "" if instants.start is None else instant_text(instants.start)


def instant_text(at: dt.datetime) -> str:
    """Return the digits of an instant in UTC, with milliseconds if it has any; the texts are in the order of time."""
    at = at.astimezone(dt.UTC)
    milliseconds = at.microsecond // 1000
    return f"{at:%Y%m%d%H%M%S}".rjust(14, "0") + (f"{milliseconds:03}" if milliseconds else "")


@lru_cache(4096)
def identity(day: object, time: object) -> str:
    """Return day and local start, for example 20261124T130000: the end and the remarks of an open house may change."""
    texts = ("".join(filter(str.isalnum, str(part or "").encode("ascii", "ignore").decode())) for part in (day, time))
    return "T".join(texts)


def numbered(identities: Iterable[str]) -> Iterator[str]:
    """Yield what identifies each element of a list; equal ones are numbered in their order."""
    times: dict[str, int] = {}
    for text in identities:
        times[text] = times.get(text, 0) + 1
        yield text if times[text] == 1 else f"{text}-{times[text]}"
