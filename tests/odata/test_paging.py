"""Next links: nothing is lost or repeated while records change, and each key comes once."""

from itertools import product
from typing import Any

import pytest
from yarl import URL

from mappings import Resource
from service.keys.store import KeyGrant, KeyStore
from service.request_context import RequestContext
from tests.feed.feed_client import deleted_listing, listing
from tests.internals import Internals
from tests.odata.conftest import SHARED_KEY, MarketClient

_KEYS = [SHARED_KEY, *(f"L{at}" for at in range(5)), *(f"S{at}" for at in range(5))]


_ORDERS = [
    *(None, "ListingKey desc", "ModificationTimestamp", "ModificationTimestamp desc"),
    *(
        "ListPrice",
        "ListPrice desc",
        "City,ClosePrice desc",
        "ClosePrice,ListingKey desc",
    ),  # listings or sold ones lack prices
]


@pytest.mark.parametrize("few", [1, 20])
async def test_a_key_of_two_resources_comes_once(unchanged: MarketClient, internals: Internals, few: int) -> None:
    """Also where the last row of a page is found first, as of pages that have more than a few rows."""
    internals(odata_few_rows=few)
    for order, size in product(_ORDERS, (1, 2, 5, 100)):
        preferred = {"Prefer": f"odata.maxpagesize={size}"}
        found = await unchanged.walk("Property", "all", preferred, orderby=order, select="ListPrice,ClosePrice")
        keys = [row["ListingKey"] for row in found]
        assert sorted(keys) == _KEYS
        assert [(entry["ListPrice"], entry["ClosePrice"]) for entry in found if entry["ListingKey"] == SHARED_KEY] == [
            (9, None)
        ]
        page = await unchanged.page("Property", "all", preferred, count="true", skip=3, orderby=order)
        assert page["@odata.count"] == len(_KEYS)
        assert [entity["ListingKey"] for entity in page["value"]] == keys[3 : 3 + size]


async def test_a_key_of_two_resources_is_never_the_sold_listing(market: MarketClient) -> None:
    page = await market.page("Property", filter="StandardStatus eq 'Closed'", count="true")
    assert ([row["ListingKey"] for row in page["value"]], page["@odata.count"]) == ([f"S{at}" for at in range(5)], 5)
    assert (await market.request(f"Property('{SHARED_KEY}')")).body["StandardStatus"] == "Active"
    # To who may not read the listing the sold one is the record.
    await market.update(listing(SHARED_KEY, "b", 10))
    assert (await market.request(f"Property('{SHARED_KEY}')", "a")).body["StandardStatus"] == "Closed"
    assert (await market.page("Property", "a", filter="StandardStatus eq 'Closed'", count="true"))["@odata.count"] == 4


async def test_the_count_is_that_of_the_rows_however_many_keys_are_looked_for_at_once(
    market: MarketClient, internals: Internals
) -> None:
    # The last keys are a part of a page, a whole one, and all there are.
    for at_once, key in product((1, 2, 3, 4, 5, 6, 7), ("all", "a")):
        internals(odata_keys_of_a_batch=at_once)
        for question in ({}, {"filter": "StandardStatus eq 'Closed'"}):
            page = await market.page("Property", key, count="true", **question)
            assert page["@odata.count"] == len(page["value"]) > 0


async def test_a_count_costs_as_many_requests_as_its_keys_take(market: MarketClient, internals: Internals) -> None:
    store = KeyStore(market.bench.client, market.bench.connection.keys_index)
    market.keys["counting"] = (await store.create(KeyGrant("c", all_companies=True, rate=1, burst=50))).reveal()
    internals(odata_looked_up_key_cost=10.0)
    remaining = []
    for at_once in (10_000, 3):  # six sold listings are less than a batch, and more than one
        internals(odata_keys_of_a_batch=at_once)
        reply = await market.request("Property/$count", "counting")
        assert reply.raw == b"11"
        remaining.append(int(reply.headers["X-RateLimit-Remaining"]))
    assert remaining == [49, 43]


@pytest.mark.parametrize("at_once", [1, 100])
async def test_what_is_skipped_are_the_rows_before(market: MarketClient, internals: Internals, at_once: int) -> None:
    internals(odata_named_at_once=at_once)
    await market.update(listing("S1", "b", 20, price=9), listing("S2", "a", 21, price=1))  # as two sold listings
    orders = [None, "ListingKey desc", "ListPrice desc,ClosePrice"]
    for order, condition in product(orders, (None, "StandardStatus eq 'Closed'")):
        asked = {"orderby": order, "filter": condition, "select": "ListingKey"}
        keys = [row["ListingKey"] for row in (await market.page("Property", **asked))["value"]]
        assert len(keys) == (11 if condition is None else 3)
        for number in range(len(keys) + 2):
            page = await market.page("Property", skip=number, top=2, **asked)
            assert [row["ListingKey"] for row in page["value"]] == keys[number : number + 2], (order, number)


@pytest.mark.parametrize("path", ["Property?$orderby=ListPrice,City&", "Property?", "EntityEvent?"])
async def test_skipped_rows_are_sorted_once_for_each_resource(
    unchanged: MarketClient, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    sizes: list[int] = []
    search = RequestContext.search

    async def recorded(call: RequestContext, resource: Resource, body: dict[str, Any], *rest: Any) -> bytes:
        sizes.append(body["size"])
        return await search(call, resource, body, *rest)

    monkeypatch.setattr(RequestContext, "search", recorded)
    assert (await unchanged.request(URL(f"{unchanged.root}/{path}$skip=2345", encoded=True))).body["value"] == []
    # The others look up the keys of sold listings.
    assert {size for size in sizes if size > len(_KEYS)} == {2345}


async def test_what_stays_comes_once_while_everything_else_changes(market: MarketClient) -> None:
    page = await market.page("Property", "all", {"Prefer": "maxpagesize=2"}, select="ListingKey")
    found, second = page["value"], 10
    while link := page.get("@odata.nextLink"):
        await market.update(listing("L1", "b", second, price=second), deleted_listing(f"L9{second}", "a", second))
        await market.update(listing(f"A{second}", "a", second), listing(f"Z{second}", "a", second))
        page, second = await market.follow(link), second + 1
        found += page["value"]
    keys = [row["ListingKey"] for row in found]
    assert keys == sorted(set(keys))
    assert set(_KEYS) <= set(keys)


async def test_by_time_of_change_what_stays_comes_once_and_what_changes_comes_again(market: MarketClient) -> None:
    small = {"Prefer": "maxpagesize=2"}
    page = await market.page("Property", "all", small, orderby="ModificationTimestamp", select="ListingKey")
    found = page["value"]
    await market.update(listing(found[0]["ListingKey"], "a", 100, price=5))
    while link := page.get("@odata.nextLink"):
        page = await market.follow(link)
        found += page["value"]
    keys = [row["ListingKey"] for row in found]
    assert sorted(keys[1:]) == _KEYS
    assert keys[-1] == keys[0]


async def test_a_next_link_keeps_what_was_asked(unchanged: MarketClient) -> None:
    options = {"filter": "ListingKey ne 'it''s + & #'", "orderby": "ListingKey desc", "select": "ListPrice"}
    preferred = {"Prefer": "maxpagesize=3"}
    page = await unchanged.page("Property", "a", preferred, top=5, skip=1, count="true", **options)
    link = URL(page["@odata.nextLink"], encoded=True)
    assert str(link).startswith(f"{unchanged.root}/Property?$")
    sent = {f"${name}": text for name, text in options.items()} | {"$top": "5", "$count": "true"}
    assert {name: text for name, text in link.query.items() if name != "$skiptoken"} == sent
    following = await unchanged.follow(str(link), "a")
    assert following["@odata.count"] == page["@odata.count"]
    assert len(following["value"]) == 2
    assert "@odata.nextLink" not in following
    assert [value.keys() for value in following["value"]] == [{"ListingKey", "ListPrice"}] * 2


async def test_links_are_as_the_client_came_and_hold_no_key(unchanged: MarketClient) -> None:
    url = (unchanged.root / "Property").with_query(
        {"$top": "1", "api-key": unchanged.keys["a"], "$select": "ListPrice"}
    )
    for name in ("market.example", "market.example:8443"):
        reply = await unchanged.request(
            url.update_query({"$top": "2"}), None, {"Host": name, "Prefer": "maxpagesize=1"}
        )
        assert reply.body["@odata.context"].startswith(f"http://{name}/v1/reso/$metadata#Property")
        assert reply.body["@odata.nextLink"].startswith(f"http://{name}/v1/reso/Property?$top=2&$select=ListPrice&$sk")
        assert unchanged.keys["a"] not in reply.raw.decode()
