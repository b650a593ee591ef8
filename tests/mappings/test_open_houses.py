"""When open houses are: local times that come once, twice or never, and ends after midnight."""

import datetime as dt
from collections.abc import Iterator
from itertools import product
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from mappings import LISTING
from mappings.open_houses import Instants, instants_of
from tests.reso.mapping.record_source import InMemoryRecords, map_record

NEW_YORK, HONOLULU = "America/New_York", "Pacific/Honolulu"
# In 2026, New York goes forward on March 8 at 2:00 and back on November 1 at 2:00.
_TIMES: list[tuple[str, str, str | None, str | None, str | None, str | None]] = [
    (HONOLULU, "2026-11-28", "16:00:00", "18:00:00", "2026-11-28T16:00:00-10:00", "2026-11-28T18:00:00-10:00"),
    (NEW_YORK, "2026-07-04", "22:00:00", "00:30:00", "2026-07-04T22:00:00-04:00", "2026-07-05T00:30:00-04:00"),
    (NEW_YORK, "2026-07-04", "10:00:00", None, "2026-07-04T10:00:00-04:00", None),
    (NEW_YORK, "2026-07-04", None, "10:00:00", None, "2026-07-04T10:00:00-04:00"),
    # It never comes.
    (NEW_YORK, "2026-03-08", "02:30:00", "04:00:00", "2026-03-08T03:30:00-04:00", "2026-03-08T04:00:00-04:00"),
    (NEW_YORK, "2026-03-08", "02:45:00", "03:15:00", "2026-03-08T03:45:00-04:00", "2026-03-08T03:45:00-04:00"),
    # It comes twice.
    (NEW_YORK, "2026-11-01", "01:30:00", "02:30:00", "2026-11-01T01:30:00-04:00", "2026-11-01T02:30:00-05:00"),
    (NEW_YORK, "2026-11-01", "01:45:00", "01:15:00", "2026-11-01T01:45:00-04:00", "2026-11-01T01:15:00-05:00"),
    # Offsets with seconds, which a timestamp cannot have.
    ("America/New_York", "1850-01-01", "12:00:00", None, "1850-01-01T16:56:02+00:00", None),
    ("Europe/London", "9999-12-31", "23:00:00", "01:00:00", None, None),
]


@pytest.mark.parametrize(("zone", "day", "start", "end", "starts", "ends"), _TIMES)
def test_local_times_are_instants(
    zone: str, day: str, start: str | None, end: str | None, starts: str | None, ends: str | None
) -> None:
    found = instants_of({"Date": day, "StartTime": start, "EndTime": end}, zone)
    assert [instant and instant.isoformat() for instant in found] == [starts, ends]


@pytest.mark.parametrize("zone", [None, "", "Pacific Time", "../../etc/passwd", "America"])
def test_there_are_no_instants_without_a_zone(zone: str | None) -> None:
    assert instants_of({"Date": "2026-07-04", "StartTime": "10:00:00"}, zone) == Instants()


_ZONES = (
    *("Pacific/Honolulu", "America/Anchorage", "America/Los_Angeles", "America/Phoenix", "America/Denver"),
    *("America/Chicago", "America/New_York", "America/Halifax", "America/St_Johns", "America/Sao_Paulo"),
    *("America/Havana", "America/Santiago", "Atlantic/Azores", "Europe/London", "Europe/Dublin", "Europe/Berlin"),
    *("Europe/Athens", "Africa/Cairo", "Africa/Casablanca", "Asia/Beirut", "Asia/Jerusalem", "Asia/Kolkata"),
    *("Asia/Kathmandu", "Asia/Tokyo", "Australia/Adelaide", "Australia/Sydney", "Australia/Lord_Howe"),
    *("Pacific/Auckland", "Pacific/Chatham", "Pacific/Kiritimati"),
)


def _nights(name: str) -> Iterator[dt.date]:
    """Yield the days on which the clocks of a zone change in 2026, and an ordinary one."""
    yield dt.date(2026, 6, 1)
    noon = dt.datetime(2026, 1, 1, 12, tzinfo=ZoneInfo(name))
    for days in range(365):
        before, after = (noon + dt.timedelta(days=days + further) for further in (0, 1))
        if before.utcoffset() != after.utcoffset():
            yield after.date()


def _in_utc(instant: dt.datetime | None) -> dt.datetime:
    """Return an instant to compare: two times in one zone are compared by their clocks."""
    assert instant is not None
    return instant.astimezone(dt.UTC)


_MINUTES = range(-120, 26 * 60, 25)
_LENGTHS = (0, 20, 75, 150, 23 * 60)


@pytest.mark.parametrize("zone", _ZONES)
def test_replicated_open_houses_are_at_the_same_instants(zone: str) -> None:
    """As they leave /v1/reso, open houses come back: the nights when clocks change, and an ordinary one."""
    held, expected = InMemoryRecords().put("Property", "k", PropertyTimeZoneName=zone), []
    for night, minute, length in product(_nights(zone), _MINUTES, _LENGTHS):
        local = dt.datetime.combine(night, dt.time()) + dt.timedelta(minutes=minute)
        ends = (local + dt.timedelta(minutes=length)).time()
        start, end = instants_of({"Date": local.date(), "StartTime": local.time(), "EndTime": ends}, zone)
        expected.append((_in_utc(start), _in_utc(end)))
        assert _in_utc(start) <= _in_utc(end)
        times = {"OpenHouseStartTime": str(start).replace(" ", "T"), "OpenHouseEndTime": str(end).replace(" ", "T")}
        held.put_part("OpenHouse", "Property", "k", OpenHouseDate=f"{local.date()}", **times)
    made = map_record(LISTING, held)
    houses: Any = made.record["OpenHouse"]
    found = [instants_of(house, str(made.envelope["property_time_zone"])) for house in houses]
    assert sorted((_in_utc(start), _in_utc(end)) for start, end in found) == sorted(expected)
    assert len(expected) > 300
    assert not made.omitted
    assert not made.assumed
