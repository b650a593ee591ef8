"""Photos, open houses and memberships of teams come as entities: all of them, once, and to each key its own."""

from itertools import groupby
from typing import Any

import pytest

from mappings import LISTING, SOLD_LISTING
from tests.contract.world import World
from tests.feed.feed_client import JsonObject
from tests.odata.conftest import MarketClient, sold
from tests.odata.expected_children import CHILD_KEYS, PARENT_KEYS, expected_children
from tests.odata.filter_strategies import quoted
from tests.odata.odata_client import MAX_PAGE_SIZE_PREFERENCE, ODataClient
from tests.records import envelope

_COMPANIES = {"all": (), "large": ("summit-crest",), "two": ("tidewater-brokers", "orchard-street")}


@pytest.mark.parametrize("key", _COMPANIES)
@pytest.mark.parametrize("name", CHILD_KEYS)
async def test_every_child_comes_once_with_what_the_source_says(
    world: World, odata: ODataClient, name: str, key: str
) -> None:
    expected = expected_children(world, name, *_COMPANIES[key])
    assert len({row[CHILD_KEYS[name]] for row in expected}) == len(expected) > 1
    assert await odata.walk(name, key, MAX_PAGE_SIZE_PREFERENCE) == expected
    assert int((await odata.get(f"{name}/$count", key)).raw) == len(expected)


@pytest.mark.parametrize("name", CHILD_KEYS)
async def test_pages_end_within_the_children_of_a_parent(world: World, odata: ODataClient, name: str) -> None:
    key = CHILD_KEYS[name]
    everything = [entry[key] for entry in expected_children(world, name)]
    keys = everything[2:40]
    text = f"{key} gt {quoted(everything[1])} and {key} le {quoted(keys[-1])}"
    for size in (1, 7):
        for order, expected in (("", keys), (" desc", keys[::-1])):
            small = {"Prefer": f"odata.maxpagesize={size}"}
            found = await odata.walk(name, "all", small, orderby=key + order, select=key, filter=text)
            assert [row[key] for row in found] == expected


@pytest.mark.parametrize("name", CHILD_KEYS)
async def test_rows_are_skipped_exactly(world: World, odata: ODataClient, name: str) -> None:
    key = CHILD_KEYS[name]
    everything = [entry[key] for entry in expected_children(world, name)]
    middle = everything[len(everything) // 2]
    some = ",".join(map(quoted, [everything[0], everything[1], middle, everything[-1]]))
    cases: dict[str, list[str]] = {
        f"{key} ne null": everything,
        f"{key} ne {quoted(middle)}": [one for one in everything if one != middle],
        f"not ({key} in ({some}))": [one for one in everything if quoted(one) not in some],
    }
    for text, expected in cases.items():
        for order, rows in (("", expected), (" desc", expected[::-1])):
            for skip in (1, 2, 3, 7, len(rows) // 2, len(rows) - 1, len(rows), len(rows) + 1):
                page = await odata.page(name, filter=text, orderby=key + order, skip=skip, top=2, select=key)
                assert [entity[key] for entity in page["value"]] == rows[skip : skip + 2], (text, order, skip)


@pytest.mark.parametrize("name", CHILD_KEYS)
async def test_children_are_found_by_their_keys_and_their_parents(world: World, odata: ODataClient, name: str) -> None:
    key, parent, expected = CHILD_KEYS[name], PARENT_KEYS[name], expected_children(world, name)
    families = [list(family) for _, family in groupby(expected, lambda row: row[parent])]
    family = max(families, key=len)
    middle = family[len(family) // 2]
    at, literal = expected.index(middle), quoted(middle[key])
    time = middle["ModificationTimestamp"]
    cases: dict[str, list[dict[str, Any]]] = {
        f"{key} eq {literal}": [middle],
        f"{key} ne {literal}": [*expected[:at], *expected[at + 1 :]],
        f"not ({key} ne {literal})": [middle],
        f"{key} gt {literal}": expected[at + 1 :],
        f"not ({key} gt {literal})": expected[: at + 1],
        f"{key} ge {literal} and {key} le {quoted(family[-1][key])}": family[len(family) // 2 :],
        f"{key} in ({literal},{quoted(expected[-1][key])},'x!y')": [middle, expected[-1]],
        f"not ({key} in ({literal},'x'))": [*expected[:at], *expected[at + 1 :]],
        f"{key} eq null or {key} eq {quoted(middle[parent])}": [],
        f"{key} ne null": expected,
        f"{parent} eq {quoted(middle[parent])}": family,
        f"{parent} in ({quoted(middle[parent])},{quoted(families[-1][0][parent])},'x')": [*family, *families[-1]],
        f"ModificationTimestamp gt {time} or (ModificationTimestamp eq {time} and {key} gt {literal})": [
            item
            for item in expected
            if item["ModificationTimestamp"] > time
            or (item["ModificationTimestamp"] == time and item[key] > middle[key])
        ],
    }
    for text, selected in cases.items():
        found = await odata.walk(name, "all", MAX_PAGE_SIZE_PREFERENCE, filter=text, select=key)
        assert [entity[key] for entity in found] == [entry[key] for entry in selected], text
        assert (await odata.page(name, filter=text, count="true", top=0))["@odata.count"] == len(selected), text


async def test_the_newest_children_come_in_the_order_of_time_and_key(world: World, odata: ODataClient) -> None:
    expected = expected_children(world, "Media")
    expected.sort(key=lambda row: row["ModificationTimestamp"])
    order = "ModificationTimestamp,MediaKey"
    found = await odata.walk("Media", "all", {"Prefer": "odata.maxpagesize=997"}, orderby=order)
    assert found == expected


@pytest.mark.parametrize("name", CHILD_KEYS)
async def test_a_child_has_an_address_and_is_none_of_a_key_that_may_not_read_it(
    world: World, odata: ODataClient, name: str
) -> None:
    key, own = CHILD_KEYS[name], expected_children(world, name, "orchard-street")
    foreign = expected_children(world, name, "summit-crest")
    for row in (own[0], own[-1]):
        context = f"{odata.root}/$metadata#{name}/$entity"
        assert (await odata.request(f"{name}('{row[key]}')", "two")).body == {"@odata.context": context, **row}
        assert (await odata.request(f"{name}({key}='{row[key]}')/{key}", "two")).body["value"] == row[key]
    missing = foreign[0][key][:-1] + "~"
    replies = [await odata.request(f"{name}('{value}')", "two") for value in (foreign[0][key], missing)]
    assert [reply.status for reply in replies] == [404, 404]
    assert replies[0].raw.decode().replace(foreign[0][key], "") == replies[1].raw.decode().replace(missing, "")
    assert (await odata.request(f"{name}('{own[0][PARENT_KEYS[name]]}')", "two")).status == 404
    found = await odata.page(name, "two", filter=f"{key} in ({quoted(foreign[0][key])},{quoted(own[0][key])})")
    assert found["value"] == own[:1]


@pytest.mark.parametrize(
    ("name", "option", "text", "status"),
    [
        ("Media", "filter", "Order eq 0", 501),
        ("Media", "filter", "contains(MediaKey,'x')", 501),
        ("Media", "filter", "MediaKey gt 'x' and year(ModificationTimestamp) eq 2026", 200),
        ("Media", "filter", "MediaKey eq 7", 400),
        ("Media", "filter", "not (MediaKey in (7))", 400),
        ("Media", "filter", "Nothing eq 'x'", 400),
        ("OpenHouse", "filter", "OpenHouseType eq 'Public'", 501),
        ("OpenHouse", "orderby", "OpenHouseType", 501),
        ("TeamMembers", "filter", "TeamKey eq 'x'", 501),
    ],
)
async def test_what_no_index_has_is_refused(odata: ODataClient, name: str, option: str, text: str, status: int) -> None:
    reply = await odata.get(name, **{option: text})
    assert reply.status == status
    assert status == 200 or f"${option}" == reply.problem[2]


async def test_a_condition_beside_a_key_that_cannot_be_compared_is_refused(world: World, odata: ODataClient) -> None:
    literal = quoted(expected_children(world, "Media")[3]["MediaKey"])
    reply = await odata.get("Media", filter=f"MediaKey ge {literal} and year(ModificationTimestamp) gt 1999")
    assert reply.problem == (501, "not-implemented", "$filter")


def _with_photos(identifier: str, *names: str, of: str = "a", second: int = 0) -> JsonObject:
    images = [{"FullURL": f"https://example.com/{name}.jpg", "MimeType": "image/jpeg"} for name in names]
    record = {"PlatformListingId": identifier, "ListingImages": images, "Status": "Active"}
    return envelope(LISTING, record, updated_at=f"2026-05-01T00:00:{second:02}Z", platform_company_id=of)


async def test_keys_stay_when_photos_are_added_moved_and_described(market: MarketClient) -> None:
    await market.update(_with_photos("L1", "kitchen", "garden", "garden", second=1))
    options = {"filter": "ResourceRecordKey eq 'L1'"}
    before = {child["MediaURL"]: child["MediaKey"] for child in await market.walk("Media", "a", None, **options)}
    page = await market.page("Media", "a", {"Prefer": "maxpagesize=2"}, **options)
    await market.update(_with_photos("L1", "attic", "garden", "garden", "kitchen", second=2))
    after = await market.walk("Media", "a", None, **options)
    assert len({entity["MediaKey"] for entity in after}) == 4
    assert before.items() <= {entry["MediaURL"]: entry["MediaKey"] for entry in after}.items()
    # A walk continues after the key that it has reached, wherever the photo is by now.
    rest = (await market.follow(page["@odata.nextLink"], "a"))["value"]
    reached = page["value"][-1]["MediaKey"]
    assert [row["MediaKey"] for row in rest] == [item["MediaKey"] for item in after if item["MediaKey"] > reached]


async def test_photos_of_a_key_in_both_resources_are_those_of_the_listing(market: MarketClient) -> None:
    twin = sold("L1", "a")
    twin["record"]["ListingImages"] = [{"FullURL": "https://example.com/old.jpg"}]
    await market.update(twin, resource=SOLD_LISTING)
    await market.update(_with_photos("L1", "kitchen", second=1))
    page = await market.page("Media", "a", filter="ResourceRecordKey eq 'L1'", count="true")
    assert [row["MediaURL"] for row in page["value"]] == ["https://example.com/kitchen.jpg"]
    assert page["@odata.count"] == 1
    everything = await market.walk("Media", "a", MAX_PAGE_SIZE_PREFERENCE)
    assert int((await market.get("Media/$count", "a")).raw) == len(everything)


async def test_open_houses_are_at_the_instants_of_their_zone_and_have_a_day_alone_without_one(
    market: MarketClient,
) -> None:
    house = {"Date": "2026-11-28", "StartTime": "16:00:00", "EndTime": "18:00:00"}
    zones = {"L0": "Pacific/Honolulu", "L2": None}
    lines = [
        envelope(
            LISTING,
            {"PlatformListingId": name, "OpenHouse": [house], "ListAgentPlatformOfficeID": None},
            platform_company_id="a",
            updated_at="2026-05-01T00:00:00Z",
            property_time_zone=zone,
        )
        for name, zone in zones.items()
    ]
    await market.update(*lines)
    options = {
        "filter": "ListingKey in ('L0','L2')",
        "select": "ListingKey,PropertyTimeZoneName",
        "expand": "OpenHouses",
    }
    rows = (await market.page("Property", **options))["value"]
    assert {row["ListingKey"]: row["PropertyTimeZoneName"] for row in rows} == zones
    of_own = (await market.page("OpenHouse", filter=options["filter"]))["value"]
    for found in ([house for row in rows for house in row["OpenHouses"]], of_own):
        assert [house["OpenHouseDate"] for house in found] == ["2026-11-28", "2026-11-28"]
        assert [house["OpenHouseStartTime"] for house in found] == ["2026-11-28T16:00:00-10:00", None]
        assert [house["OpenHouseEndTime"] for house in found] == ["2026-11-28T18:00:00-10:00", None]
