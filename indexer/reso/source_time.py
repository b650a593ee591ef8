"""Timestamps of a RESO source, parsed and formatted."""

from __future__ import annotations

import datetime as dt


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
