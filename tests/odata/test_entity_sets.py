"""The entity sets answer what the source says, under the names of the Data Dictionary, and to each key its own."""

from typing import Any

import pytest

from service.reso.ordering import SortKey, SortKind, SortOrder
from tests.contract.world import World
from tests.odata.expected_entities import KEYS, expected_entities
from tests.odata.odata_client import MAX_PAGE_SIZE_PREFERENCE, ODataClient


@pytest.mark.parametrize("name", KEYS)
async def test_every_record_comes_once_with_what_the_source_says(world: World, odata: ODataClient, name: str) -> None:
    expected = expected_entities(world, name)
    answered = await odata.walk(name, "all", MAX_PAGE_SIZE_PREFERENCE)
    assert [{field: row[field] for field in expected[0]} for row in answered] == expected


@pytest.mark.parametrize("name", KEYS)
async def test_an_entity_alone_is_what_it_is_in_its_set(odata: ODataClient, name: str) -> None:
    first = (await odata.page(name, top=1))["value"][0]
    reply = await odata.request(f"{name}('{first[KEYS[name]]}')")
    context = f"{odata.root}/$metadata#{name}/$entity"
    assert reply.body == {"@odata.context": context, **first}
    assert reply.headers["OData-Version"] == "4.01"


async def test_keys_that_records_refer_to_are_those_of_other_entities(odata: ODataClient) -> None:
    members = {
        item["MemberKey"]: item["OfficeKey"] for item in await odata.walk("Member", "all", MAX_PAGE_SIZE_PREFERENCE)
    }
    offices = {entity["OfficeKey"] for entity in await odata.walk("Office", "all", MAX_PAGE_SIZE_PREFERENCE)}
    homes = await odata.walk("Property", "all", MAX_PAGE_SIZE_PREFERENCE)
    agents = {entry[name] for entry in homes for name in ("ListAgentKey", "CoListAgentKey", "BuyerAgentKey")} - {None}
    assert agents
    assert agents <= members.keys()
    referred = {row[name] for row in homes for name in ("ListOfficeKey", "BuyerOfficeKey")} - {None}
    assert referred <= offices
    assert set(members.values()) - {None} <= offices


async def test_select_answers_what_is_named_and_the_key(odata: ODataClient) -> None:
    page = await odata.page("Property", top=2, select="ListPrice, City")
    assert page["@odata.context"].endswith("/v1/reso/$metadata#Property(ListPrice,City)")
    assert [value.keys() for value in page["value"]] == [{"ListingKey", "ListPrice", "City"}] * 2
    assert (await odata.page("Property", top=1, select="*"))["value"] == (await odata.page("Property", top=1))["value"]


async def test_a_page_has_the_preferred_size_or_top(world: World, odata: ODataClient) -> None:
    everything = len(expected_entities(world, "Property"))
    assert everything > 1000
    assert len((await odata.page("Property"))["value"]) == 100
    assert len((await odata.page("Property", top=900))["value"]) == 900
    assert len((await odata.page("Property", top=1001))["value"]) == 1000
    reply = await odata.get("Property", "all", {"Prefer": "return=minimal, maxpagesize=5000"}, select="ListingKey")
    assert len(reply.body["value"]) == 1000
    assert reply.headers["Preference-Applied"] == "maxpagesize=1000"
    reply = await odata.get("Property", "all", {"Prefer": "odata.maxpagesize=7"}, select="ListingKey")
    assert reply.headers["Preference-Applied"] == "odata.maxpagesize=7"
    assert [len(reply.body["value"]), len((await odata.follow(reply.body["@odata.nextLink"]))["value"])] == [7, 7]


async def test_top_is_how_many_come_in_all(world: World, odata: ODataClient) -> None:
    keys = [entry["ListingKey"] for entry in expected_entities(world, "Property")]
    small = {"Prefer": "odata.maxpagesize=3"}
    for top in (0, 1, 3, 7, 9):
        found = await odata.walk("Property", "all", small, top=top, select="ListingKey")
        assert [entity["ListingKey"] for entity in found] == keys[:top]
    assert "@odata.nextLink" not in await odata.page("Property", "all", small, top=3)
    found = await odata.walk("Property", "all", small, top=7, skip=400, select="ListingKey")
    assert [row["ListingKey"] for row in found] == keys[400:407]
    assert (await odata.page("Property", skip=10_000))["value"] == []


async def test_the_count_is_of_all_that_match_on_every_page(world: World, odata: ODataClient) -> None:
    expected = sum(row["StandardStatus"] == "Closed" for row in expected_entities(world, "Property"))
    page = await odata.page("Property", top=150, skip=3, count="true", filter="StandardStatus eq 'Closed'")
    assert (page["@odata.count"], len(page["value"])) == (expected, 150)
    page = await odata.page("Property", "all", {"Prefer": "odata.maxpagesize=2"}, count="true")
    following = await odata.follow(page["@odata.nextLink"])
    assert page["@odata.count"] == following["@odata.count"] == len(expected_entities(world, "Property"))
    assert "@odata.count" not in await odata.page("Property", count="false")


def test_a_record_without_a_text_is_before_all_others() -> None:
    order = SortOrder((SortKey(SortKind.KEYWORD, is_descending=False, by_resource={}),))
    assert order.sorted_indices([("a",), (None,), ("",)]) == [1, 2, 0]


def _rank(value: Any) -> tuple[bool, Any]:
    return value is not None, value


@pytest.mark.parametrize(
    ("order", "by"),
    [
        ("ListingKey", ["ListingKey"]),
        ("ListingKey desc", ["-ListingKey"]),
        ("ModificationTimestamp", ["ModificationTimestamp", "ListingKey"]),
        ("ModificationTimestamp desc", ["-ModificationTimestamp", "ListingKey"]),
        ("ModificationTimestamp desc,ListingKey desc", ["-ModificationTimestamp", "-ListingKey"]),
        ("ModificationTimestamp asc , ListingKey DESC", ["ModificationTimestamp", "-ListingKey"]),
        ("ListingKey asc,ModificationTimestamp desc", ["ListingKey"]),
        ("ListPrice", ["ListPrice", "ListingKey"]),
        ("ClosePrice desc", ["-ClosePrice", "ListingKey"]),
        ("CloseDate", ["CloseDate", "ListingKey"]),
        ("BedroomsTotal desc,City,Latitude desc", ["-BedroomsTotal", "City", "-Latitude", "ListingKey"]),
        ("BedroomsTotal,ClosePrice", ["BedroomsTotal", "ClosePrice", "ListingKey"]),
        ("City desc,ClosePrice desc,ListingKey desc", ["-City", "-ClosePrice", "-ListingKey"]),
        ("PostalCode desc,ListingContractDate", ["-PostalCode", "ListingContractDate", "ListingKey"]),
    ],
)
async def test_rows_come_in_the_requested_order(world: World, odata: ODataClient, order: str, by: list[str]) -> None:
    expected = expected_entities(world, "Property")
    for field in reversed(by):
        expected.sort(key=lambda item, field=field: _rank(item[field.lstrip("-")]), reverse=field.startswith("-"))  # type: ignore[misc]
    keys = [entity["ListingKey"] for entity in expected]
    found = await odata.walk("Property", "all", {"Prefer": "maxpagesize=97"}, orderby=order, select="ListingKey")
    assert [row["ListingKey"] for row in found] == keys
    page = await odata.page("Property", orderby=order, skip=333, top=5, select="ListingKey")
    assert [entry["ListingKey"] for entry in page["value"]] == keys[333:338]


@pytest.mark.parametrize("name", KEYS)
async def test_an_entity_and_its_properties_have_addresses(odata: ODataClient, name: str) -> None:
    first = (await odata.page(name, top=1))["value"][0]
    key = first[KEYS[name]]
    for form in (f"{name}('{key}')", f"{name}({KEYS[name]}='{key}')"):
        assert (await odata.request(form)).body == (await odata.request(f"{name}('{key}')")).body
        for field, value in first.items():
            reply = await odata.request(f"{form}/{field}")
            if value is None:
                assert (reply.status, reply.raw) == (204, b"")
            else:
                context = f"{odata.root}/$metadata#{name}('{key}')/{field}"
                assert reply.body == {"@odata.context": context, "value": value}
        assert (await odata.request(f"{form}/Nothing")).status == 404
    assert (await odata.request(f"{name}('nobody')/ModificationTimestamp")).status == 404
    assert (await odata.request(f"{name}(Other='{key}')")).status == 404


async def test_a_count_alone_is_a_number(world: World, odata: ODataClient) -> None:
    expected = expected_entities(world, "Property")
    reply = await odata.get("Property/$count")
    assert (reply.headers["Content-Type"].partition(";")[0], int(reply.raw)) == ("text/plain", len(expected))
    reply = await odata.get("Property/$count", filter="StandardStatus eq 'Closed'")
    assert int(reply.raw) == sum(row["StandardStatus"] == "Closed" for row in expected)
    assert (await odata.get("Property/$count", top=1)).problem == (501, "not-implemented", "$top")
    assert (await odata.get("Property/$count", filter="Nothing eq 1")).status == 400
