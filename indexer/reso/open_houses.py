"""OpenHouse: when a listing can be seen by everybody, in the time of its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from indexer.reso.left_out import shown
from indexer.reso.moments import day, instant, is_local, time_of_day
from indexer.reso.spelling import among
from indexer.reso.time_zones import time_zone
from indexer.reso.values import address, text

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable

    from indexer.reso.reading import Reading
    from mappings.fields import Field

OPEN_HOUSE = "OpenHouse"
_CANCELED = among(["Canceled", "Cancelled"])
_LIVESTREAM = among(["Livestream Public"])
# Others are for agents or offices alone.
_PUBLIC = among(["Public", ""]) | _LIVESTREAM


class OpenHouses:
    """Makes the open houses of a resource's listings."""

    def __init__(self, declared: Field, key: str, default_zone: dt.tzinfo | None) -> None:
        """Take the members that an open house has, the name of its key, and the zone of listings that say none."""
        self._members = frozenset(member.name for member in declared.members)
        self._key = key
        self._default_zone = default_zone

    def __call__(self, reading: Reading) -> list[dict[str, object]]:
        """Return the open houses by date, start and key."""
        if not (parts := reading.parts(OPEN_HOUSE)):
            return []
        zone = self._zone(reading)
        made = [(house, str(part.get(self._key) or "")) for part in parts if (house := _made(reading, part, zone))]
        made.sort(key=lambda one: (one[0]["Date"], one[0].get("StartTime", ""), one[1]))
        return [{name: value for name, value in house.items() if name in self._members} for house, _ in made]

    def _zone(self, reading: Reading) -> dt.tzinfo | None:
        name = reading.take("PropertyTimeZoneName", text, reading.record.get("PropertyTimeZoneName"))
        zone = None if name is None else time_zone(name)
        if name is not None and zone is None and self._default_zone is None:
            reading.left_out.append(("PropertyTimeZoneName", f"is {shown(name)}: no time zone"))
        return zone or self._default_zone


class _Local(NamedTuple):
    """A time of day where the house stands, and the day, empty where none is given."""

    date: str
    time: str


def _made(reading: Reading, part: dict[str, Any], zone: dt.tzinfo | None) -> dict[str, Any] | None:
    """Return an open house with every member there can be; None for one that nobody can or may go to."""
    if (kind := _kind(reading, part)) is None:
        return None
    start = _take(reading, part, "OpenHouseStartTime", lambda value: _local(value, zone))
    if not (date := _take(reading, part, "OpenHouseDate", day) or (start.date if start else "")):
        reading.left_out.append((f"{OPEN_HOUSE}.OpenHouseDate", "is missing: the open house is left out"))
        return None
    end = _take(reading, part, "OpenHouseEndTime", lambda value: _local(value, zone))
    made = {"Date": date, "StartTime": start and start.time, "EndTime": end and end.time}
    made |= _streamed(reading, part, kind)
    made["Comment"] = _take(reading, part, "OpenHouseRemarks", text)
    return {name: value for name, value in made.items() if value is not None}


def _streamed(reading: Reading, part: dict[str, Any], kind: str) -> dict[str, Any]:
    stream = _take(reading, part, "LivestreamOpenHouseURL", address)
    return {"VirtualOpenHouseYN": stream is not None or kind in _LIVESTREAM, "VirtualOpenHouseURL": stream}


def _kind(reading: Reading, part: dict[str, Any]) -> str | None:
    """Return the type of an open house that takes place and is for everybody; what cannot be read is taken for no."""
    state = reading.spelt(f"{OPEN_HOUSE}.OpenHouseStatus", part.get("OpenHouseStatus"))
    kind = reading.spelt(f"{OPEN_HOUSE}.OpenHouseType", part.get("OpenHouseType"))
    return None if state is None or state in _CANCELED or kind not in _PUBLIC else kind


def _take(reading: Reading, part: dict[str, Any], name: str, read: Callable[[object], Any]) -> Any:
    value = part.get(name)
    return None if value is None else reading.take(f"{OPEN_HOUSE}.{name}", read, value)


def _local(value: object, zone: dt.tzinfo | None) -> _Local | None:
    """Return a time of day as it is, a moment as the clocks of the zone show it."""
    if (plain := time_of_day(value)) is not None:
        return _Local("", plain)
    if (found := instant(value)) is None:
        return None
    there = found if zone is None or is_local(value) else found.astimezone(zone)
    return _Local(there.date().isoformat(), there.time().isoformat("seconds"))
