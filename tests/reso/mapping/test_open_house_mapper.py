"""Open houses: which are shown, and in which time zone."""

from typing import Any

import pytest

from indexer.reso.mapping.record_mapper import MappedRecord
from mappings import LISTING, SOLD_LISTING, Resource
from tests.reso.mapping.record_source import InMemoryRecords, map_record

LOS_ANGELES, NEW_YORK = "America/Los_Angeles", "America/New_York"
DAY = {"OpenHouseDate": "2026-07-04"}


def listing(
    *houses: dict[str, Any], zone: object = None, time_zone: str | None = None, resource: Resource = LISTING
) -> MappedRecord:
    """Return what is composed of a Property with open houses."""
    status = "Closed" if resource is SOLD_LISTING else "Active"
    held = InMemoryRecords().put("Property", "k", PropertyTimeZoneName=zone, StandardStatus=status)
    for house in houses:
        held.put_part("OpenHouse", "Property", "k", **house)
    return map_record(resource, held, time_zone=time_zone)


def open_houses(*houses: dict[str, Any], **options: Any) -> Any:
    """Return the open houses of a listing, of which nothing had to be left out."""
    made = listing(*houses, **options)
    assert made.omitted == ()
    return made.record["OpenHouse"]


def test_an_open_house_has_all_its_members() -> None:
    house = {"OpenHouseDate": "2026-07-04", "OpenHouseStartTime": "2026-07-04T17:00:00Z", "OpenHouseRemarks": "Come."}
    house |= {"OpenHouseEndTime": "2026-07-04T19:30:00Z", "LivestreamOpenHouseURL": "https://live"}
    real = {"Date": "2026-07-04", "StartTime": "10:00:00", "EndTime": "12:30:00"}
    virtual = {"VirtualOpenHouseYN": True, "VirtualOpenHouseURL": "https://live", "Comment": "Come."}
    assert open_houses(house, zone=LOS_ANGELES) == [real | virtual]
    assert open_houses(house, zone=LOS_ANGELES, resource=SOLD_LISTING) == [real]


@pytest.mark.parametrize(
    ("zone", "time_zone", "start"),
    [
        (LOS_ANGELES, NEW_YORK, "10:00:00"),
        (None, NEW_YORK, "13:00:00"),
        ("***", NEW_YORK, "13:00:00"),
        ("Pacific Time Zone", NEW_YORK, "13:00:00"),
        ("America", NEW_YORK, "13:00:00"),
        ("../../etc/passwd", NEW_YORK, "13:00:00"),
        ("\x00", NEW_YORK, "13:00:00"),
        (None, None, "17:00:00"),
    ],
)
def test_times_are_given_in_local_time(zone: str | None, time_zone: str | None, start: str) -> None:
    [house] = open_houses(DAY | {"OpenHouseStartTime": "2026-07-04T17:00:00Z"}, zone=zone, time_zone=time_zone)
    assert house["StartTime"] == start


def test_an_unknown_time_zone_is_reported_if_no_other_is_given() -> None:
    made = listing(DAY | {"OpenHouseStartTime": "2026-07-04T17:00:00Z"}, zone="Pacific Time Zone")
    start = {"Date": "2026-07-04", "StartTime": "17:00:00", "VirtualOpenHouseYN": False}
    assert made.record["OpenHouse"] == [start]
    assert made.omitted == (("PropertyTimeZoneName", "is 'Pacific Time Zone': not a time zone"),)
    assert listing(zone="Pacific Time Zone").omitted == ()


@pytest.mark.parametrize(
    ("given", "start"),
    [
        *(("10:00", "10:00:00"), ("10:00:30.5", "10:00:30"), ("2026-07-04T10:00:00", "10:00:00")),
        *(("2026-07-04T10:00:00-04:00", "07:00:00"), ("2026-12-04T18:00:00.5Z", "10:00:00")),
    ],
)
def test_a_time_without_an_offset_stays(given: str, start: str) -> None:
    [house] = open_houses(DAY | {"OpenHouseStartTime": given}, zone=LOS_ANGELES)
    assert house["StartTime"] == start


@pytest.mark.parametrize(
    ("day", "start", "zone", "shown"),
    [
        ("2026-07-05", "2026-07-05T01:00:00Z", LOS_ANGELES, "2026-07-04"),
        ("2026-07-04", "2026-07-05T01:00:00Z", LOS_ANGELES, "2026-07-04"),
        ("2026-07-04", "2026-07-04T23:30:00-04:00", "Pacific/Auckland", "2026-07-05"),
        ("2026-07-05", "2026-07-05T01:00:00Z", None, "2026-07-05"),
        ("2026-07-05", "2026-07-04T18:00:00", LOS_ANGELES, "2026-07-05"),
        ("2026-07-05", "1900-01-01T18:00:00Z", LOS_ANGELES, "2026-07-05"),
        ("2026-07-05", "18:00:00", LOS_ANGELES, "2026-07-05"),
    ],
)
def test_the_day_is_that_of_the_start_at_the_place(day: str, start: str, zone: str | None, shown: str) -> None:
    """A start without an offset, without a zone, or far from the day, does not move the day."""
    [house] = open_houses({"OpenHouseDate": day, "OpenHouseStartTime": start}, zone=zone)
    assert house["Date"] == shown


def test_without_a_zone_a_time_keeps_its_own_offset() -> None:
    [house] = open_houses({"OpenHouseStartTime": "2026-07-04T23:00:00-07:00"})
    assert (house["Date"], house["StartTime"]) == ("2026-07-04", "23:00:00")


def test_the_day_is_that_of_the_place_where_none_is_given() -> None:
    [house] = open_houses({"OpenHouseStartTime": "2026-07-05T01:00:00Z"}, zone=LOS_ANGELES)
    assert (house["Date"], house["StartTime"]) == ("2026-07-04", "18:00:00")


@pytest.mark.parametrize(
    ("house", "reason"),
    [
        ({}, ("OpenHouse.OpenHouseDate", "is missing: the open house is left out")),
        ({"OpenHouseStartTime": "10:00"}, ("OpenHouse.OpenHouseDate", "is missing: the open house is left out")),
        (DAY | {"OpenHouseType": {}}, ("OpenHouse.OpenHouseType", "is an object: not a text")),
        (
            DAY | {"OpenHouseStatus": [{}]},
            ("OpenHouse.OpenHouseStatus", "has an element that is an object: not a text"),
        ),
    ],
)
def test_an_open_house_without_a_day_or_with_riddles_is_left_out(house: dict[str, Any], reason: object) -> None:
    made = listing(house)
    assert (made.record["OpenHouse"], made.omitted) == ([], (reason,))


def test_a_time_that_cannot_be_read_is_left_out_alone() -> None:
    made = listing(DAY | {"OpenHouseStartTime": "noon", "OpenHouseEndTime": "25:00"})
    assert made.record["OpenHouse"] == [{"Date": "2026-07-04", "VirtualOpenHouseYN": False}]
    assert [field for field, _ in made.omitted] == ["OpenHouse.OpenHouseStartTime", "OpenHouse.OpenHouseEndTime"]


@pytest.mark.parametrize(
    ("house", "is_virtual"),
    [
        *(({}, False), ({"OpenHouseType": "Public"}, False), ({"OpenHouseType": "livestream-public"}, True)),
        *(({"OpenHouseStatus": "Ended"}, False), ({"LivestreamOpenHouseURL": "***"}, False)),
    ],
)
def test_public_open_houses_are_shown(house: dict[str, Any], is_virtual: bool) -> None:
    assert open_houses(DAY | house)[0]["VirtualOpenHouseYN"] is is_virtual


@pytest.mark.parametrize(
    "house",
    [
        *({"OpenHouseType": "Broker"}, {"OpenHouseType": "Livestream Broker"}, {"OpenHouseType": "Office"}),
        *({"OpenHouseStatus": "Canceled"}, {"OpenHouseStatus": "cancelled", "OpenHouseType": "Public"}),
    ],
)
def test_open_houses_for_some_or_called_off_are_not(house: dict[str, Any]) -> None:
    assert open_houses(DAY | house) == []


def test_open_houses_are_ordered_by_date_start_and_key() -> None:
    def house(date: str, start: str | None, remark: str, key: str) -> dict[str, Any]:
        fields = {"OpenHouseStartTime": start, "OpenHouseRemarks": remark, "OpenHouseKey": key}
        return fields | {"OpenHouseDate": date}

    houses = [
        house("2026-07-05", "09:00", "e", "a"),
        house("2026-07-04", "2026-07-04T20:00:00Z", "d", "b"),
        house("2026-07-04", "10:00", "c", "z"),
        house("2026-07-04", "10:00", "b", "c"),
        house("2026-07-04", None, "a", "d"),
    ]
    assert [one["Comment"] for one in open_houses(*houses, zone=LOS_ANGELES)] == ["a", "b", "c", "d", "e"]
