"""Time zones by their names in the IANA database."""

from __future__ import annotations

from functools import lru_cache
from zoneinfo import ZoneInfo


@lru_cache(1024)
def time_zone(name: str) -> ZoneInfo | None:
    """Return a time zone, None for a name that is not in the database."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # among the names are folders, and what no file can be called
        return None
