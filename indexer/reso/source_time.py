"""Timestamps of a RESO source, parsed and formatted."""

import datetime as dt
import re

SyncPosition = tuple[str, str]  # a timestamp as the source formats it, and a key

_FRACTION = re.compile(r"\.\d+")


def parse_source_time(value: str) -> dt.datetime | None:
    """Return an ISO 8601 timestamp, None for anything else; one without an offset is UTC.

    Years at the ends of the calendar are not times: sources write them for "never", and arithmetic would overflow.
    """
    try:
        parsed = dt.datetime.fromisoformat(value)
    except ValueError:
        return None
    if not dt.MINYEAR < parsed.year < dt.MAXYEAR:
        return None
    return parsed.replace(tzinfo=dt.UTC) if parsed.tzinfo is None else parsed


def format_source_time(value: dt.datetime) -> str:
    """Return a timestamp with milliseconds and `Z`, the form that also sorts correctly as text."""
    return value.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def queryable_time(modified: str) -> str:
    """Return a timestamp for a filter: unchanged if it is in UTC, else converted to UTC."""
    if modified.endswith("Z") or (parsed := parse_source_time(modified)) is None:
        return modified
    whole = parsed.astimezone(dt.UTC).replace(microsecond=0, tzinfo=None).isoformat()
    fraction = _FRACTION.search(modified)  # kept as text: it may be finer than microseconds
    return f"{whole}{fraction[0] if fraction else ''}Z"
