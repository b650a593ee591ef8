"""Mapping of public open houses, in the local time of the listing."""

import datetime as dt
from collections.abc import Callable
from typing import Any, NamedTuple

from indexer.reso.mapping.converters import to_text, to_url
from indexer.reso.mapping.date_times import find_time_zone, is_without_offset, to_date, to_datetime, to_time_of_day
from indexer.reso.mapping.lookup_tables import normalize_names
from indexer.reso.mapping.mapping_context import MappingContext
from indexer.reso.mapping.source_values import describe_value
from mappings.fields import Field

OPEN_HOUSE = "OpenHouse"
_DAY = dt.timedelta(days=1)
_CANCELED = normalize_names(["Canceled", "Cancelled"])
_LIVESTREAM_TYPES = normalize_names(["Livestream Public"])
# Other types are for agents or offices only.
_PUBLIC_TYPES = normalize_names(["Public", ""]) | _LIVESTREAM_TYPES


class OpenHouseMapper:
    """Maps the open houses of listings."""

    def __init__(self, declared: Field, key: str, default_zone: dt.tzinfo | None) -> None:
        """Take the declared members, the key field, and the time zone of listings without one."""
        self._members = frozenset(member.name for member in declared.members)
        self._key = key
        self._default_zone = default_zone

    def __call__(self, context: MappingContext) -> list[dict[str, object]]:
        """Return the open houses sorted by date, start and key."""
        if not (parts := context.parts(OPEN_HOUSE)):
            return []
        zone = self._zone(context)
        keyed = [
            (house, str(part.get(self._key) or "")) for part in parts if (house := _map_open_house(context, part, zone))
        ]
        keyed.sort(key=lambda pair: (pair[0]["Date"], pair[0].get("StartTime", ""), pair[1]))
        return [{name: value for name, value in house.items() if name in self._members} for house, _ in keyed]

    def _zone(self, context: MappingContext) -> dt.tzinfo | None:
        name = context.convert("PropertyTimeZoneName", to_text, context.record.get("PropertyTimeZoneName"))
        zone = None if name is None else find_time_zone(name)
        if name is not None and zone is None and self._default_zone is None:
            context.omitted.append(("PropertyTimeZoneName", f"is {describe_value(name)}: not a time zone"))
        return zone or self._default_zone


class _LocalTime(NamedTuple):
    """A date and time of day; the date is empty if none is given. `is_zoned`: converted to the listing's time zone."""

    date: str
    time: str
    is_zoned: bool = False


def _map_open_house(context: MappingContext, part: dict[str, Any], zone: dt.tzinfo | None) -> dict[str, Any] | None:
    """Return an open house with all members; None if it is canceled, not public, or without a date."""
    if (kind := _public_type(context, part)) is None:
        return None
    start = _convert(context, part, "OpenHouseStartTime", lambda value: _local_time(value, zone))
    if not (date := _day(_convert(context, part, "OpenHouseDate", to_date), start)):
        context.omitted.append((f"{OPEN_HOUSE}.OpenHouseDate", "is missing: the open house is left out"))
        return None
    end = _convert(context, part, "OpenHouseEndTime", lambda value: _local_time(value, zone))
    house = {"Date": date, "StartTime": start and start.time, "EndTime": end and end.time}
    house |= _livestream_fields(context, part, kind)
    house["Comment"] = _convert(context, part, "OpenHouseRemarks", to_text)
    return {name: value for name, value in house.items() if value is not None}


def _day(given: str | None, start: _LocalTime | None) -> str:
    """Return the day of the start at the listing: sources with times in UTC often give the day in UTC, too.

    A start that is further from the given day than a time zone can move it is only a time of day.
    """
    if start is None or not start.date or given is None:
        return given or (start.date if start else "")
    is_near = abs(dt.date.fromisoformat(given) - dt.date.fromisoformat(start.date)) <= _DAY
    return start.date if start.is_zoned and is_near else given


def _livestream_fields(context: MappingContext, part: dict[str, Any], kind: str) -> dict[str, Any]:
    url = _convert(context, part, "LivestreamOpenHouseURL", to_url)
    return {"VirtualOpenHouseYN": url is not None or kind in _LIVESTREAM_TYPES, "VirtualOpenHouseURL": url}


def _public_type(context: MappingContext, part: dict[str, Any]) -> str | None:
    """Return the type of an open house that is public and not canceled; None otherwise or if unmappable."""
    status = context.normalized_text(f"{OPEN_HOUSE}.OpenHouseStatus", part.get("OpenHouseStatus"))
    kind = context.normalized_text(f"{OPEN_HOUSE}.OpenHouseType", part.get("OpenHouseType"))
    return None if status is None or status in _CANCELED or kind not in _PUBLIC_TYPES else kind


def _convert(context: MappingContext, part: dict[str, Any], name: str, converter: Callable[[object], Any]) -> Any:
    value = part.get(name)
    return None if value is None else context.convert(f"{OPEN_HOUSE}.{name}", converter, value)


def _local_time(value: object, zone: dt.tzinfo | None) -> _LocalTime | None:
    """Return a time of day unchanged, and a timestamp in the local time of the zone."""
    if (time := to_time_of_day(value)) is not None:
        return _LocalTime("", time)
    if (timestamp := to_datetime(value)) is None:
        return None
    is_zoned = zone is not None and not is_without_offset(value)
    local = timestamp.astimezone(zone) if is_zoned else timestamp
    return _LocalTime(local.date().isoformat(), local.time().isoformat("seconds"), is_zoned)
