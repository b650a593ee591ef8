"""`$expand` adds related entities to a record: what their own entity sets answer to the same key, or null."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from mappings import AGENT, COMPANY, LISTING
from service.services import SERVICES
from tests.contract.world import World
from tests.feed.conftest import serve_feed
from tests.feed.feed_client import JsonObject, company
from tests.indexer.conftest import Bench
from tests.network.proxy import Proxy
from tests.odata.conftest import MarketClient, agent
from tests.odata.expected_children import PARENT_KEYS, expected_children
from tests.odata.odata_client import MAX_PAGE_SIZE_PREFERENCE, Entity, ODataClient
from tests.records import envelope
from tests.waiting import until

_LINKS = {
    "ListAgent": "Member",
    "CoListAgent": "Member",
    "BuyerAgent": "Member",
    "ListOffice": "Office",
    "BuyerOffice": "Office",
}
_ALL = ",".join(("Media", "OpenHouses", *_LINKS))


async def _by_key(odata: ODataClient, name: str, key: str) -> dict[str | None, Entity]:
    field = {"Member": "MemberKey", "Office": "OfficeKey"}[name]
    return {row[field]: row for row in await odata.walk(name, key, MAX_PAGE_SIZE_PREFERENCE)}


@pytest.mark.parametrize("key", ["all", "two"])
async def test_related_entities_are_those_of_their_own_sets(world: World, odata: ODataClient, key: str) -> None:
    companies = ("tidewater-brokers", "orchard-street") if key == "two" else ()
    linked = {name: await _by_key(odata, name, key) for name in ("Member", "Office")}
    plain = await odata.walk("Property", key, MAX_PAGE_SIZE_PREFERENCE)
    children: dict[str, dict[str, list[Entity]]] = {"Media": {}, "OpenHouse": {}}
    for name, by_parent in children.items():
        for item in expected_children(world, name, *companies):
            by_parent.setdefault(item[PARENT_KEYS[name]], []).append(item)
    expanded = await odata.walk("Property", key, {"Prefer": "odata.maxpagesize=300"}, expand=_ALL)
    assert any(entry["BuyerAgent"] for entry in expanded)
    for before, after in zip(plain, expanded, strict=True):
        for name, target in _LINKS.items():
            assert after.pop(name) == linked[target].get(before[f"{name}Key"])
        photos = sorted(children["Media"].get(before["ListingKey"], []), key=lambda row: row["Order"])
        assert after.pop("Media") == photos
        houses = after.pop("OpenHouses")
        assert sorted(houses, key=lambda entity: str(entity["OpenHouseKey"])) == children["OpenHouse"].get(
            before["ListingKey"], []
        )
        assert after == before


async def test_selected_properties_of_related_entities_come_alone(odata: ODataClient) -> None:
    options = {"select": "City", "expand": "Media($select=MediaURL, Order),ListAgent( $select=MemberFullName )"}
    page = await odata.page("Property", top=3, **options)
    assert page["@odata.context"].endswith("#Property(City,Media(MediaURL,Order),ListAgent(MemberFullName))")
    for row in page["value"]:
        assert row.keys() == {"ListingKey", "City", "Media", "ListAgent"}
        assert row["ListAgent"].keys() == {"MemberKey", "MemberFullName"}
        assert {frozenset(photo) for photo in row["Media"]} == {frozenset({"MediaKey", "MediaURL", "Order"})}
    first = page["value"][0]
    alone = await odata.get(f"Property('{first['ListingKey']}')", **options)
    assert {name: alone.body[name] for name in first} == first


async def test_a_page_asks_once_for_all_agents(
    world: World, odata: ODataClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, sent = world.http.app[SERVICES].engine, list[str]()
    search = engine.search

    async def counted(alias: str, *arguments: Any, **options: Any) -> bytes:
        sent.append(alias.rpartition("-")[2])
        response: bytes = await search(alias, *arguments, **options)
        return response

    monkeypatch.setattr(engine, "search", counted)
    page = await odata.page("Property", top=50, expand="ListAgent,CoListAgent,ListOffice,Media")
    assert len({row["ListAgentKey"] for row in page["value"]}) > 5
    assert (sent.count("agents"), sent.count("offices")) == (1, 1), sent


async def test_an_agent_that_the_key_may_not_read_is_null_and_its_fields_stay_hidden(market: MarketClient) -> None:
    own, foreign = "0b0e6d3c-5f0d-4f35-9d3c-111111111111", "0b0e6d3c-5f0d-4f35-9d3c-222222222222"
    named = {"PlatformListingId": "L0", "Status": "Active", "SecondaryListAgentUUID": foreign}
    nobody = "0b0e6d3c-5f0d-4f35-9d3c-333333333333"
    lines = [
        envelope(LISTING, named | {"ListAgentUUID": own}, updated_at="2026-05-01T00:00:00Z", platform_company_id="a"),
        envelope(
            LISTING,
            named | {"PlatformListingId": "L2", "ListAgentUUID": nobody},
            updated_at="2026-05-01T00:00:00Z",
            platform_company_id="a",
        ),
    ]
    await market.update(*lines)
    await market.update(agent(own, "a", updated_at="2026-05-01T00:00:00Z"), resource=AGENT)
    options = {"filter": "ListingKey in ('L0','L2')", "expand": "ListAgent,CoListAgent"}
    for key in ("a", "poor"):
        first, second = (await market.page("Property", key, None, **options))["value"]
        (member,) = (await market.page("Member", key))["value"]
        assert (first["ListAgent"], first["CoListAgent"]) == (member, None)
        assert second["ListAgent"] is second["CoListAgent"] is None
        assert (await market.get("Property('L0')/ListAgent", key)).body.items() >= member.items()
        assert (await market.get("Property('L0')/CoListAgent", key)).status == 204
        assert (await market.get("Property('L2')/ListAgent", key)).status == 204
    first = (await market.page("Property", "all", None, **options))["value"][0]
    assert first["CoListAgent"]["MemberKey"] == foreign
    assert (await market.page("Property('L0')/CoListAgent"))["MemberKey"] == foreign


_OWN = "0b0e6d3c-5f0d-4f35-9d3c-111111111111"


async def _build(bench: Bench, number: int) -> None:
    """Rebuild a listing and its agent, which both have a number."""
    at = f"2026-05-01T00:00:{number:02}Z"
    named = {"PlatformListingId": "L0", "Status": "Active", "ListAgentUUID": _OWN, "ListPrice": number}
    one = {"agent_uuid": _OWN, "uuid": _OWN, "first_name": str(number)}
    lines = {
        COMPANY: [company("a")],
        LISTING: [envelope(LISTING, named, updated_at=at, platform_company_id="a")],
        AGENT: [envelope(AGENT, one, updated_at=at, platform_company_id="a")],
    }
    assert (await bench.build(lines)).exit_code == 0


@pytest.mark.parametrize("path", ["Property", "Property('L0')"])
async def test_what_is_expanded_is_of_one_build(bench: Bench, path: str) -> None:
    await _build(bench, 1)
    async with Proxy(bench.connection.url[0]).running() as proxy:
        behind = replace(bench, connection=replace(bench.connection, url=(proxy.url,)))
        async with serve_feed(behind) as feed:
            client = ODataClient(feed.http.session, str(feed.http.make_url("")), feed.keys)
            proxy.hold(f"/{bench.connection.alias(AGENT)}/_search")
            asked = asyncio.create_task(client.get(path, "a", expand="ListAgent", select="ListPrice"))
            await until(lambda: proxy.held)
            await _build(bench, 2)
            await proxy.heal()
            body: JsonObject = (await asked).body
    row = body["value"][0] if "value" in body else body
    assert (row["ListPrice"], row["ListAgent"]["MemberFirstName"]) == (2, "2")


@pytest.mark.parametrize("name", ["Member", "Media", "EntityEvent"])
async def test_an_entity_set_without_related_entities_refuses_the_option(odata: ODataClient, name: str) -> None:
    assert (await odata.get(name, expand="Media")).problem == (501, "not-implemented", "$expand")


async def test_open_houses_come_by_either_of_their_names(odata: ODataClient) -> None:
    """The member of the response has the name by which it was asked for."""
    options = {"top": 100, "select": "ListingKey"}
    nested = "($select=OpenHouseDate)"
    pages = [
        (await odata.page("Property", expand=f"{name}{nested}", **options))["value"]
        for name in ("OpenHouses", "OpenHouse")
    ]
    assert any(row["OpenHouses"] for row in pages[0])
    assert [row["OpenHouses"] for row in pages[0]] == [row["OpenHouse"] for row in pages[1]]
    both = (await odata.page("Property", expand="OpenHouse,OpenHouses", **options))["value"]
    assert all(row["OpenHouse"] == row["OpenHouses"] for row in both)
    refused = await odata.get("Property", expand="OpenHous")
    assert "it has Media, OpenHouses, HistoryTransactional, ListAgent" in str(refused.body)
    raw = (await odata.request("$metadata")).raw.decode()
    assert '<NavigationProperty Name="OpenHouses" Type="Collection(org.reso.metadata.OpenHouse)"' in raw
    assert '<NavigationProperty Name="OpenHouse"' not in raw


async def test_metadata_names_the_related_entities(odata: ODataClient) -> None:
    raw = (await odata.request("$metadata")).raw.decode()
    assert '<NavigationProperty Name="Media" Type="Collection(org.reso.metadata.Media)"' in raw
    assert '<NavigationProperty Name="ListAgent" Type="org.reso.metadata.Member"' in raw
    assert '<NavigationPropertyBinding Path="ListOffice" Target="Office"' in raw
