"""Open houses: which are shown, and in which time zone."""

from typing import Any

import pytest

from indexer.reso.mapping.record_mapper import MappedRecord
from mappings import LISTING, SOLD_LISTING, Resource
from mappings.data_dictionary import load_dictionary
from tests.reso.mapping.record_source import InMemoryRecords, map_record

LOS_ANGELES, NEW_YORK = "America/Los_Angeles", "America/New_York"
DAY = {"OpenHouseDate": "2026-07-04"}
DAY_ALONE = {"Date": "2026-07-04", "VirtualOpenHouseYN": False}


def listing(
    *houses: dict[str, Any], zone: object = None, time_zone: str | None = None, resource: Resource = LISTING
) -> MappedRecord:
    status = "Closed" if resource is SOLD_LISTING else "Active"
    held = InMemoryRecords().put("Property", "k", PropertyTimeZoneName=zone, StandardStatus=status)
    for house in houses:
        held.put_part("OpenHouse", "Property", "k", **house)
    return map_record(resource, held, time_zone=time_zone)


def shown_of(made: MappedRecord) -> Any:
    return made.record["OpenHouse"]


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


AT, EVENING = "2026-07-04T17:00:00Z", "2026-07-05T01:00:00Z"
_PLACES = ("***", "Pacific Time Zone", "America", "../../etc/passwd", "\x00")
# The day and the start that the source gives, the zone of the listing and that of the source, and what is shown.
_TIMES: list[tuple[str | None, str, str | None, str | None, str, str]] = [
    ("2026-07-04", AT, LOS_ANGELES, NEW_YORK, "2026-07-04", "10:00:00"),
    ("2026-07-04", AT, None, NEW_YORK, "2026-07-04", "13:00:00"),
    *(("2026-07-04", AT, place, NEW_YORK, "2026-07-04", "13:00:00") for place in _PLACES),
    ("2026-07-04", "2026-07-04T10:00:00-07:00", None, None, "2026-07-04", "10:00:00"),
    # A time without an offset stays.
    ("2026-07-04", "10:00", LOS_ANGELES, None, "2026-07-04", "10:00:00"),
    ("2026-07-04", "10:00:30.5", LOS_ANGELES, None, "2026-07-04", "10:00:30"),
    ("2026-07-04", "2026-07-04T10:00:00", LOS_ANGELES, None, "2026-07-04", "10:00:00"),
    ("2026-07-04", "2026-07-04T10:00:00-04:00", LOS_ANGELES, None, "2026-07-04", "07:00:00"),
    ("2026-12-04", "2026-12-04T18:00:00.5Z", LOS_ANGELES, None, "2026-12-04", "10:00:00"),
    # The day is that of the start at the place.
    ("2026-07-05", EVENING, LOS_ANGELES, None, "2026-07-04", "18:00:00"),
    ("2026-07-04", EVENING, LOS_ANGELES, None, "2026-07-04", "18:00:00"),
    ("2026-07-04", "2026-07-04T23:30:00-04:00", "Pacific/Auckland", None, "2026-07-05", "15:30:00"),
    (None, EVENING, LOS_ANGELES, None, "2026-07-04", "18:00:00"),
    # A start without an offset, without a zone, or far from the day, does not move the day.
    ("2026-07-05", "2026-07-04T18:00:00-07:00", None, None, "2026-07-05", "18:00:00"),
    ("2026-07-05", "2026-07-04T18:00:00", LOS_ANGELES, None, "2026-07-05", "18:00:00"),
    ("2026-07-05", "1900-01-01T18:00:00Z", LOS_ANGELES, None, "2026-07-05", "10:00:00"),
    ("2026-07-05", "18:00:00", LOS_ANGELES, None, "2026-07-05", "18:00:00"),
    (None, "2026-07-04T23:00:00-07:00", None, None, "2026-07-04", "23:00:00"),
]


@pytest.mark.parametrize(("day", "start", "zone", "time_zone", "shown_day", "shown_start"), _TIMES)
def test_day_and_start_are_those_of_the_place(
    day: str | None, start: str, zone: str | None, time_zone: str | None, shown_day: str, shown_start: str
) -> None:
    given = {"OpenHouseDate": day, "OpenHouseStartTime": start}
    [house] = open_houses(given, zone=zone, time_zone=time_zone)
    assert (house["Date"], house["StartTime"]) == (shown_day, shown_start)


def test_an_unknown_time_zone_is_reported_if_no_other_is_given() -> None:
    made = listing(DAY | {"OpenHouseStartTime": "2026-07-04T17:00:00Z"}, zone="Pacific Time Zone")
    unknown = ("PropertyTimeZoneName", "is 'Pacific Time Zone': not a time zone")
    assert made.record["OpenHouse"] == [DAY_ALONE]
    assert (unknown in made.omitted, made.envelope) == (True, {"property_type_id": -1})
    assert listing(zone="Pacific Time Zone").omitted == (unknown,)
    assert listing(zone="Pacific Time Zone", time_zone=NEW_YORK).omitted == ()


@pytest.mark.parametrize("written", [AT, "2026-07-04T17:00:00+00:00", "2026-07-04T17:00:00.000-00:00"])
def test_utc_without_a_zone_is_not_taken_for_local(written: str) -> None:
    made = listing(DAY | {"OpenHouseStartTime": written, "OpenHouseEndTime": AT})
    assert made.record["OpenHouse"] == [DAY_ALONE]
    named = ["OpenHouse.OpenHouseStartTime", "OpenHouse.OpenHouseEndTime"]
    assert [field for field, _ in made.omitted] == named
    assert all("without a time zone of the listing (--time-zone)" in reason for _, reason in made.omitted)


def test_what_is_taken_for_granted_of_a_time_is_said() -> None:
    start, written = "OpenHouse.OpenHouseStartTime", "2026-07-04T10:00:00-07:00"
    at, local = DAY | {"OpenHouseStartTime": written}, DAY | {"OpenHouseStartTime": "2026-07-04T10:00:00"}
    assert listing(at, local).assumed == (
        (start, "without a time zone of the listing, shown as they are", f"{written!r}"),
    )
    assert listing(at, zone=LOS_ANGELES).assumed == listing(at, time_zone=NEW_YORK).assumed == ()
    twice = {"OpenHouseDate": "2026-11-01", "OpenHouseStartTime": "2026-11-01T09:30:00Z"}
    made = listing(twice, zone=LOS_ANGELES)
    assert made.record["OpenHouse"] == [{"Date": "2026-11-01", "StartTime": "01:30:00", "VirtualOpenHouseYN": False}]
    assert made.assumed == ((start, "in an hour that comes twice, taken for the first", "'2026-11-01T09:30:00Z'"),)


@pytest.mark.parametrize(
    ("end", "shown", "is_said"),
    [
        ("2026-07-05T08:00:00Z", "01:00:00", False),  # after midnight
        ("2026-07-05T17:00:00Z", "10:00:00", True),  # a day later
        ("2026-07-04T16:00:00Z", "09:00:00", True),  # before the start
    ],
)
def test_an_end_that_its_time_alone_does_not_say_is_counted(end: str, shown: str, *, is_said: bool) -> None:
    made = listing(DAY | {"OpenHouseStartTime": AT, "OpenHouseEndTime": end}, zone=LOS_ANGELES)
    [house] = shown_of(made)
    reason = "not within a day of the start, taken for the first such time after it"
    said = (("OpenHouse.OpenHouseEndTime", reason, repr(end)),) if is_said else ()
    assert (house["EndTime"], made.assumed) == (shown, said)


def test_the_zone_is_kept_and_a_map_may_take_it_from_the_office() -> None:
    assert listing(zone=LOS_ANGELES, time_zone=NEW_YORK).envelope["property_time_zone"] == LOS_ANGELES
    assert listing(zone="***", time_zone=NEW_YORK).envelope["property_time_zone"] == NEW_YORK
    office = '{ of = "ListOfficeKey", in = "Office", field = "OfficeZone" }'
    dictionary = load_dictionary(f'[Property]\ntime_zone = ["PropertyTimeZoneName", {office}]'.encode())
    held = InMemoryRecords().put("Property", "k", ListOfficeKey="o", StandardStatus="Active")
    held.put("Office", "o", OfficeZone=NEW_YORK).put_part("OpenHouse", "Property", "k", OpenHouseStartTime=AT, **DAY)
    made = map_record(LISTING, held, dictionary=dictionary)
    [house] = shown_of(made)
    assert (made.envelope["property_time_zone"], house["StartTime"]) == (NEW_YORK, "13:00:00")


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
        ({"OpenHouseStartTime": "***"}, False),
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
