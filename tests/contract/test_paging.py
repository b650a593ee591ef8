"""A whole feed, page by page, is exactly the source's set: nothing missing, nothing twice, in order."""

from typing import Any

import pytest
from yarl import URL

from tests.contract.world import PARENT, Envelope, World, response_identifiers, source_identifiers

EVER: dict[str, Any] = {"updated_since": 1}


@pytest.mark.parametrize("page_size", [1, 7, 200, 1000])
async def test_a_company_feed_is_the_source_set_at_any_page_size(world: World, page_size: int) -> None:
    company = "evergreen-realty"
    walked = await world.walk(
        "/listings", platform_company_id=company, market_status="all", page_size=page_size, **EVER
    )
    assert response_identifiers(walked) == source_identifiers(world.of("listings", company))


@pytest.mark.parametrize("page_size", [1, 200])
async def test_a_company_under_its_parent_gives_the_same_feed(world: World, page_size: int) -> None:
    child = {"platform_company_id": "4101", "parent_company_id": PARENT}
    walked = await world.walk("/listings", "parent", market_status="all", page_size=page_size, **child, **EVER)
    assert response_identifiers(walked) == source_identifiers(world.of("listings", "evergreen-realty"))


@pytest.mark.parametrize("page_size", [1, 200])
async def test_sold_listings_of_all_children_of_a_parent_come_in_one_walk(world: World, page_size: int) -> None:
    walked = await world.walk("/sold_listings", "parent", parent_company_id=PARENT, page_size=page_size, **EVER)
    assert response_identifiers(walked) == source_identifiers(world.of("sold_listings", *world.children()))


@pytest.mark.parametrize("key", ["all", "large", "child", "two"])
async def test_sold_listings_without_a_company_are_all_that_the_key_may_read(world: World, key: str) -> None:
    companies = {"all": (), "large": ("summit-crest",), "child": ("evergreen-realty",)}.get(
        key, ("tidewater-brokers", "orchard-street")
    )
    walked = await world.walk("/sold_listings", key, page_size=50, **EVER)
    assert response_identifiers(walked) == source_identifiers(world.of("sold_listings", *companies))


async def test_the_short_form_walks_the_same_set(world: World) -> None:
    walked = await world.walk(
        "/listings",
        platform_company_id="summit-crest",
        market_status="all",
        timestamps_only="true",
        page_size=13,
        **EVER,
    )
    assert response_identifiers(walked) == source_identifiers(world.of("listings", "summit-crest"))


async def test_the_last_page_is_final_when_it_is_exactly_full(world: World) -> None:
    count = len(world.of("listings", "orchard-street"))
    page = await world.answer(
        "/listings", platform_company_id="orchard-street", market_status="all", page_size=count, **EVER
    )
    assert page["FinalPage"] is True
    assert len(page["Listings"]) == count


async def test_the_page_before_the_last_record_is_not_final(world: World) -> None:
    count = len(world.of("listings", "orchard-street"))
    page = await world.answer(
        "/listings", platform_company_id="orchard-street", market_status="all", page_size=count - 1, **EVER
    )
    assert page["FinalPage"] is False


async def test_an_empty_page_is_final(world: World) -> None:
    page = await world.answer("/listings", platform_company_id="orchard-street", last_platform_listing_id="zzzz")
    assert page == {"FinalPage": True, "Listings": []}


async def test_a_cursor_need_not_be_a_record_of_the_feed(world: World) -> None:
    """The cursor survives the deletion of its own record."""
    ids = source_identifiers(world.of("listings", "summit-crest"))
    between = ids[10] + "0"
    page = await world.answer(
        "/listings",
        platform_company_id="summit-crest",
        market_status="all",
        last_platform_listing_id=between,
        page_size=3,
        **EVER,
    )
    assert response_identifiers(page["Listings"]) == ids[11:14]


async def test_the_link_leads_through_the_whole_feed(world: World) -> None:
    url: str | None = "/v1/listings?platform_company_id=summit-crest&market_status=all&updated_since=1&page_size=60"
    found: list[str] = []
    while url is not None:
        async with world.http.get(url, headers={"x-api-key": world.keys["all"]}) as response:
            found += response_identifiers((await response.json())["Listings"])
            following = response.links.get("next")
            url = str(URL(following["url"]).relative()) if following else None
    assert found == source_identifiers(world.of("listings", "summit-crest"))


@pytest.mark.parametrize("page_size", [1, 9, 100])
async def test_numbered_pages_of_agents_partition_the_set(world: World, page_size: int) -> None:
    first = await world.get("/agents", page_size=page_size, **EVER)
    total_pages = int(first.headers["X-Total-Pages"])
    found = list(first.body)
    for number in range(2, total_pages + 1):
        found += await world.answer("/agents", page_size=page_size, page_number=number, **EVER)
    active = world.of("agents", where=_in_use)
    assert response_identifiers(found, "agent_uuid") == source_identifiers(active, "agent_uuid")
    assert int(first.headers["X-Total-Count"]) == len(active)


def _in_use(envelope: Envelope) -> bool:
    return envelope.get("deactivated_at") is None


@pytest.mark.parametrize("path", ["/agents", "/offices", "/teams", "/companies"])
async def test_a_page_past_the_last_is_empty(world: World, path: str) -> None:
    reply = await world.get(path, page_number=90, page_size=1000)
    assert reply.status == 200
    assert (reply.body["offices"] if path == "/offices" else reply.body) == []
    assert int(reply.headers["X-Total-Pages"]) == 1


@pytest.mark.parametrize("path", ["/agents", "/offices", "/teams", "/companies"])
async def test_a_page_beyond_the_result_window_is_refused(world: World, path: str) -> None:
    reply = await world.get(path, page_number=101, page_size=1000)
    assert (reply.status, reply.parameters) == (400, {"page_number"})


async def test_the_last_page_of_the_result_window_is_served(world: World) -> None:
    assert await world.answer("/agents", page_number=100, page_size=1000) == []


async def test_teams_and_companies_are_returned_in_full_unless_pages_are_requested(world: World) -> None:
    assert response_identifiers(await world.answer("/teams"), "uuid") == source_identifiers(world.of("teams"), "uuid")
    page = await world.get("/teams", page_size=1, page_number=2)
    assert response_identifiers(page.body, "uuid") == source_identifiers(world.of("teams"), "uuid")[1:2]
    assert int(page.headers["X-Total-Pages"]) == len(world.of("teams"))
