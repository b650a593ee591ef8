"""How far the reading of an entity has come, and the times by which it goes on."""

from __future__ import annotations

import datetime as dt

import msgspec

from indexer.reso.odata import moment

Place = tuple[str, str]  # a time as the source spells it, and a key


class Standing(msgspec.Struct):
    """How far the reading of an entity has come. `since` is of the newest change before the first load."""

    since: str  # empty before the first load
    loaded: bool = False
    last: str | None = None  # the last key of a load under way
    place: Place | None = None  # the newest change that was read
    compared: float = 0.0  # when all keys were last compared, in seconds since 1970


def exact(modified: str) -> str:
    """Return a time as it can be asked for: as the source spells it if that is in UTC, else brought to it."""
    if modified.endswith("Z") or (parsed := moment(modified)) is None:
        return modified
    return parsed.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")
