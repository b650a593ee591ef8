"""Open houses are found by days and starts, and homes by their open houses: exactly, in order, counted, anywhere."""

import datetime as dt
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from mappings import LISTING, SOLD_LISTING
from tests.contract.world import World
from tests.feed.feed_client import JsonObject
from tests.internals import Internals
from tests.odata.conftest import MarketClient, sold
from tests.odata.expected_children import expected_children
from tests.odata.expected_entities import expected_entities
from tests.odata.filter_strategies import Searched, comparisons, examples, filter_expressions
from tests.odata.odata_client import MAX_PAGE_SIZE_PREFERENCE, ODataClient
from tests.records import envelope

_WHEN = Searched(days=("OpenHouseDate",), moments=("OpenHouseStartTime",))
_SEARCHED = _WHEN._replace(ordered=("OpenHouseKey", "ListingKey"))
Rows = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def _filters_of_any_cost(internals: Internals) -> None:
    internals(odata_most_cost=10_000)


async def _found(odata: ODataClient, name: str, key: str, size: int, **options: object) -> list[str]:
    """Return the keys of all pages, whose number is what each page says that it is."""
    preference = {"Prefer": f"odata.maxpagesize={size}"}
    page = await odata.page(name, "all", preference, count="true", select=key, **options)
    found: list[str] = [row[key] for row in page["value"]]
    while link := page.get("@odata.nextLink"):
        page = await odata.follow(link)
        found += [row[key] for row in page["value"]]
    assert page["@odata.count"] == len(found)
    return found


async def test_random_filters_answer_what_python_finds(
    world: World, odata: ODataClient, amount: Callable[[int, int], int]
) -> None:
    everything = expected_children(world, "OpenHouse")
    made = filter_expressions(comparisons(everything, _SEARCHED))
    for at, (text, holds) in enumerate(examples(made, amount(24, 2_000))):
        expected = [row for row in everything if holds(row)]
        keys = [row["OpenHouseKey"] for row in expected]
        assert await _found(odata, "OpenHouse", "OpenHouseKey", (1000, 7)[at % 2], filter=text) == keys, text
        assert int((await odata.get("OpenHouse/$count", filter=text)).raw) == len(keys), text
        order = _ORDERS[at // 2 % len(_ORDERS)]
        days = _in_order(expected, order)
        assert await _found(odata, "OpenHouse", "OpenHouseKey", (1000, 7)[at % 2], filter=text, orderby=order) == days
        skip = (0, 1, len(days) // 2, len(days))[at % 4]
        options = {"filter": text, "orderby": order, "skip": skip, "top": 2}
        page = await odata.page("OpenHouse", select="OpenHouseKey", **options)
        assert [row["OpenHouseKey"] for row in page["value"]] == days[skip : skip + 2], options


_ORDERS = (
    *("OpenHouseDate", "OpenHouseStartTime", "OpenHouseDate,OpenHouseStartTime"),
    *("OpenHouseDate desc,OpenHouseKey", "OpenHouseStartTime desc", "OpenHouseDate desc,OpenHouseStartTime desc"),
)


def _in_order(rows: Rows, order: str) -> list[str]:
    """Return keys in the order of days, starts or both, unknown ones first, then in that of keys."""
    names = [name for name in ("OpenHouseDate", "OpenHouseStartTime") if name in order]

    def value(row: dict[str, Any]) -> list[tuple[bool, Any]]:
        read = (
            row[name] and (dt.date if name.endswith("Date") else dt.datetime).fromisoformat(row[name]) for name in names
        )
        return [(one is not None, one) for one in read]

    rows = sorted(rows, key=lambda row: str(row["OpenHouseKey"]))
    return [row["OpenHouseKey"] for row in sorted(rows, key=value, reverse="desc" in order)]


_ZONES = (
    *("Pacific/Honolulu", "America/New_York", "Europe/London", "Asia/Kathmandu", "Pacific/Auckland"),
    *("Pacific/Kiritimati", None),
)
_HOURS = ("00:00:00", "09:30:00", "13:00:00", "23:30:00")


def _of_zones(number: int) -> tuple[list[JsonObject], Rows]:
    """Return listings of several zones with open houses on a few days, and what these should be."""
    lines, rows = list[JsonObject](), Rows()
    for at in range(number):
        zone = _ZONES[at % len(_ZONES)]
        days = [str(dt.date(2026, 11, 27) + dt.timedelta(days=(at * step) % 5)) for step in (1, 3)]
        houses = [
            {"Date": day, "StartTime": _HOURS[(at // 3 + step) % len(_HOURS)]}
            for step, day in enumerate(dict.fromkeys(days))
        ]
        record = {"PlatformListingId": f"N{at:02}", "OpenHouse": houses, "Status": "Active"}
        known = {"updated_at": "2026-05-01T00:00:00Z", "platform_company_id": "a", "property_time_zone": zone}
        lines.append(envelope(LISTING, record, **known))
        for house in houses:
            local = dt.datetime.fromisoformat(f"{house['Date']}T{house['StartTime']}")
            rows.append(
                {
                    "OpenHouseKey": f"N{at:02}!{local:%Y%m%dT%H%M%S}",
                    "OpenHouseDate": house["Date"],
                    "OpenHouseStartTime": zone and local.replace(tzinfo=ZoneInfo(zone)).astimezone(dt.UTC).isoformat(),
                }
            )
    return lines, sorted(rows, key=lambda row: row["OpenHouseKey"])


async def test_starts_of_different_zones_are_compared_and_ordered_as_instants(
    market: MarketClient, amount: Callable[[int, int], int]
) -> None:
    lines, everything = _of_zones(40)
    await market.update(*lines)
    made = filter_expressions(comparisons(everything, _WHEN))
    for at, (of_houses, holds) in enumerate(examples(made, amount(16, 1_000))):
        text = f"({of_houses}) and ListingKey ge 'N' and ListingKey lt 'O'"
        expected, order = [row for row in everything if holds(row)], _ORDERS[at % len(_ORDERS)]
        preference = {"Prefer": f"odata.maxpagesize={(3, 50)[at // 2 % 2]}"}
        found = await market.walk("OpenHouse", "a", preference, filter=text, orderby=order)
        assert [row["OpenHouseKey"] for row in found] == _in_order(expected, order), (text, order)
        assert (await market.page("OpenHouse", "a", filter=text, count="true", top=0))["@odata.count"] == len(expected)


async def test_homes_are_found_by_their_open_houses(
    world: World, odata: ODataClient, amount: Callable[[int, int], int]
) -> None:
    houses: dict[str, Rows] = {}
    for row in expected_children(world, "OpenHouse"):
        houses.setdefault(row["ListingKey"], []).append(row)
    everything = [row["ListingKey"] for row in expected_entities(world, "Property")]
    made = filter_expressions(comparisons([one for rows in houses.values() for one in rows], _WHEN))
    for text, holds in examples(made, amount(30, 500)):
        inner = text.replace("OpenHouse", "o/OpenHouse")
        if "year(o/OpenHouse" in inner:
            assert (await odata.get("Property", filter=f"OpenHouse/any(o:{inner})")).status == 501
            continue
        for word, judge in (("any", any), ("all", all)):
            keys = [key for key in everything if judge(map(holds, houses.get(key, [])))]
            asked = f"OpenHouse/{word}(o:{inner})"
            assert await _found(odata, "Property", "ListingKey", 1000, filter=asked) == keys, asked
    for asked in ("OpenHouse/any()", "not OpenHouse/any()", "OpenHouse/any() and ListingKey gt '8'"):
        keys = [key for key in everything if (key in houses) is not asked.startswith("not")]
        keys = [key for key in keys if key > "8" or "gt" not in asked]
        assert await _found(odata, "Property", "ListingKey", 1000, filter=asked) == keys, asked


async def test_a_filter_by_days_goes_with_one_by_time_of_change(world: World, odata: ODataClient) -> None:
    everything = expected_children(world, "OpenHouse")
    row = everything[len(everything) // 2]
    day, at = row["OpenHouseDate"], row["ModificationTimestamp"]
    cases: tuple[tuple[str, Callable[[dict[str, Any]], bool]], ...] = (
        (
            f"OpenHouseDate ge {day} and ModificationTimestamp ge {at}",
            lambda one: one["OpenHouseDate"] >= day and one["ModificationTimestamp"] >= at,
        ),
        (
            f"OpenHouseDate ge {day} or ModificationTimestamp ge {at}",
            lambda one: one["OpenHouseDate"] >= day or one["ModificationTimestamp"] >= at,
        ),
    )
    for text, holds in cases:
        expected = [one["OpenHouseKey"] for one in everything if holds(one)]
        assert await _found(odata, "OpenHouse", "OpenHouseKey", 50, filter=text) == expected


_REFUSED = [
    ("OpenHouse", "$filter", "OpenHouseDate ge 'x'", 400),
    ("OpenHouse", "$filter", "OpenHouseDate ge 2026-02-30", 400),
    ("OpenHouse", "$filter", "OpenHouseDate eq null and OpenHouseDate ne null and Nothing eq 1", 400),
    ("OpenHouse", "$filter", "OpenHouseDate ne null or OpenHouseType eq 'Public'", 501),
    ("OpenHouse", "$filter", "month(OpenHouseDate) eq 1", 501),
    ("OpenHouse", "$orderby", "OpenHouseDate,ModificationTimestamp", 501),
    ("OpenHouse", "$orderby", "OpenHouseKey,OpenHouseDate", 501),
    ("OpenHouse", "$orderby", "OpenHouseStartTime,OpenHouseDate", 501),
    ("OpenHouse", "$orderby", "OpenHouseDate,OpenHouseStartTime desc", 501),
    ("OpenHouse", "$orderby", "OpenHouseEndTime", 501),
    ("OpenHouse", "$filter", "OpenHouseStartTime ge 2026-11-28", 400),
    ("OpenHouse", "$filter", "hour(OpenHouseStartTime) eq 13", 501),
    ("OpenHouse", "$filter", "OpenHouseEndTime ge 2026-11-28T00:00:00Z", 501),
    ("Property", "$filter", "OpenHouse/any(o:o/Nothing eq 1)", 400),
    ("Property", "$filter", "OpenHouse/any(o:o eq 'x')", 400),
    ("Property", "$filter", "OpenHouse/any(o:p/OpenHouseDate eq 2026-01-01)", 400),
    ("Property", "$filter", "OpenHouse/any(o:o/ListingKey eq 'x')", 501),
    ("Property", "$filter", "OpenHouse eq null", 400),
    ("Property", "$filter", "Media/any(m:m/Order eq 1)", 501),
    ("Property", "$filter", "City/any(c:c/Name eq 'x')", 400),
    ("Property", "$filter", "Heating/any(h:h/Name eq 'x')", 400),
]


@pytest.mark.parametrize(("name", "option", "text", "status"), _REFUSED)
async def test_what_tokens_do_not_say_is_refused(
    odata: ODataClient, name: str, option: str, text: str, status: int
) -> None:
    code = "invalid-parameter" if status == 400 else "not-implemented"
    assert (await odata.get(name, **{option[1:]: text})).problem == (status, code, option)


def _listing(identifier: str, *days: str | None, of: str = "a") -> JsonObject:
    houses = [{"Date": day, "StartTime": "13:00:00"} for day in days]
    record = {"PlatformListingId": identifier, "OpenHouse": houses, "Status": "Active"}
    return envelope(LISTING, record, updated_at="2026-05-01T00:00:00Z", platform_company_id=of)


async def test_unknown_days_come_first_and_one_day_may_have_several(market: MarketClient) -> None:
    sales = [
        sold(identifier, of) | {"updated_at": "2026-05-01T00:00:00Z"}
        for of, identifiers in (("a", ("D1", "S0", "S2", "S4")), ("b", ("S1", "S3")))
        for identifier in identifiers
    ]
    for sale in sales:
        sale["record"]["OpenHouse"] = []
    twin, old, *_ = sales
    twin["record"]["OpenHouse"] = [{"Date": "2026-11-28", "StartTime": "09:00:00"}]
    old["record"]["OpenHouse"] = [{"Date": "2026-11-29", "StartTime": "09:00:00"}, {"Date": None, "StartTime": None}]
    await market.update(*sales, resource=SOLD_LISTING)
    await market.update(
        _listing("L4"),
        _listing("L3", of="b"),
        _listing("L0", "2026-11-29", None, "2026-11-28", "2026-11-28"),
        _listing("L2", "9999-12-31", "0001-01-01"),
        _listing("D1", "2026-11-30"),
        _listing("L1", "2026-11-28", of="b"),
    )
    unknown = ["L0!T130000", "S0!T"]
    saturday = ["L0!20261128T130000", "L0!20261128T130000-2"]
    sunday, monday = ["L0!20261129T130000", "S0!20261129T090000"], ["D1!20261130T130000"]
    first, last = ["L2!00010101T130000"], ["L2!99991231T130000"]
    cases = {
        "OpenHouseDate eq null": unknown,
        "OpenHouseDate ge 2026-11-28 and OpenHouseDate le 2026-11-29": saturday + sunday,
        "OpenHouseDate in (2026-11-30, null)": unknown + monday,
        "OpenHouseDate lt 2026-11-28": first,
        "OpenHouseDate gt 2026-11-29": monday + last,
        "OpenHouseDate ge 9999-12-31": last,
        "not (OpenHouseDate gt 2026-11-28)": unknown + first + saturday,
        "OpenHouseDate ne 2026-11-28": unknown + first + sunday + monday + last,
        "year(OpenHouseDate) eq 2026": saturday + sunday + monday,
        "OpenHouseDate ne null": first + saturday + sunday + monday + last,
        "OpenHouseKey ne null": unknown + first + saturday + sunday + monday + last,
    }
    for text, keys in cases.items():
        for size in (1, 2, 100):
            preference = {"Prefer": f"maxpagesize={size}"}
            options = {"filter": text, "orderby": "OpenHouseDate"}
            found = await market.walk("OpenHouse", "a", preference, **options)
            assert [row["OpenHouseKey"] for row in found] == keys, (text, size)
        page = await market.page("OpenHouse", "a", filter=text, count="true")
        assert page["@odata.count"] == len(keys)
        assert sorted(row["OpenHouseKey"] for row in page["value"]) == sorted(keys)
    found = await market.walk(
        "OpenHouse", "a", MAX_PAGE_SIZE_PREFERENCE, orderby="OpenHouseDate desc,OpenHouseKey desc"
    )
    assert [row["OpenHouseKey"] for row in found] == [
        *(last + monday),
        *(sunday[::-1] + saturday[::-1] + first + unknown[::-1]),
    ]
    # The open houses of another company are counted and found by neither.
    page = await market.page("OpenHouse", "b", filter="OpenHouseDate ge 2026-01-01", count="true")
    assert ([row["ListingKey"] for row in page["value"]], page["@odata.count"]) == (["L1"], 1)
    homes = await market.page("Property", "a", filter="OpenHouse/any(o:o/OpenHouseDate eq 2026-11-28)", count="true")
    assert ([row["ListingKey"] for row in homes["value"]], homes["@odata.count"]) == (["L0"], 1)


async def test_a_page_goes_on_where_it_ended_when_open_houses_come_and_go(market: MarketClient) -> None:
    await market.update(*(_listing(f"L{at}", "2026-11-28", "2026-11-29") for at in (0, 2, 4)))
    options = {"filter": "OpenHouseDate ge 2026-11-28", "orderby": "OpenHouseDate"}
    page = await market.page("OpenHouse", "a", {"Prefer": "maxpagesize=2"}, **options)
    assert [row["OpenHouseKey"] for row in page["value"]] == ["L0!20261128T130000", "L2!20261128T130000"]
    later = [_listing("L0", "2026-11-28", "2026-11-28"), _listing("L2", "2026-11-27"), _listing("L6", "2026-11-28")]
    for line in later:
        line["updated_at"] = "2026-05-01T00:00:01Z"
    await market.update(*later)
    rest = [row["OpenHouseKey"] for row in (await market.follow(page["@odata.nextLink"], "a"))["value"]]
    assert rest == ["L4!20261128T130000", "L6!20261128T130000"]


async def test_more_days_than_are_named_at_once_come_in_order(market: MarketClient) -> None:
    """Elasticsearch names 500 tokens at once, of each of two resources whose days do not end together."""
    days = [str(dt.date(2027, 1, 1) + dt.timedelta(days=number)) for number in range(900)]
    sale = sold("S0", "a") | {"updated_at": "2026-05-01T00:00:00Z"}
    sale["record"]["OpenHouse"] = [{"Date": day, "StartTime": "09:00:00"} for day in days[300:]]
    await market.update(sale, resource=SOLD_LISTING)
    await market.update(_listing("L0", *days))
    expected = sorted([*days, *days[300:]])
    for order, rows in (("OpenHouseDate", expected), ("OpenHouseDate desc", expected[::-1])):
        options = {"filter": "OpenHouseDate gt 2026-12-31", "orderby": order}
        found = await market.walk("OpenHouse", "a", {"Prefer": "maxpagesize=250"}, **options)
        assert [row["OpenHouseDate"] for row in found] == rows
    page = await market.page("OpenHouse", "a", orderby="OpenHouseDate desc", skip=1150, top=3)
    assert [row["OpenHouseDate"] for row in page["value"]] == expected[::-1][1150:1153]
