"""Pages of any size are the index cut into pieces: nothing missing, nothing twice, in order, whatever leads on."""

import re
import time
from typing import Any

import pytest
from aiohttp import ClientResponse
from yarl import URL

from tests.contract.world import IDENTIFIERS, PARENT, World, response_records, source_identifiers, unix_time

ORCHARD = "platform_company_id=orchard-street"
CHILD = "parent_company_id=cascadia-holdings&platform_company_id=4101"
# An index, the companies that it is about (none: all), and sizes of pages; 0 stands for exactly all records.
WALKED: list[tuple[str, tuple[str, ...], tuple[int, ...]]] = [
    (f"/listings?{ORCHARD}&updated_since=1&market_status=all", ("orchard-street",), (1, 7, -1, 0, 1000)),
    (f"/listings?{CHILD}&updated_since=1&market_status=all", ("evergreen-realty",), (7, 0)),
    (f"/listings?{ORCHARD}&updated_since=1&market_status=all&timestamps_only=true", ("orchard-street",), (13, -1, 0)),
    (f"/sold_listings?{ORCHARD}&updated_since=1", ("orchard-street",), (1, 0)),
    (f"/sold_listings?updated_since=1&parent_company_id={PARENT}", ("children",), (9, -1, 0)),
    ("/sold_listings?updated_since=1", (), (50, -1, 0)),
]
NUMBERED: list[tuple[str, tuple[int, ...]]] = [
    ("/agents?updated_since=1", (1, 9, 1000)),
    ("/agents?updated_since=1&timestamps_only=true", (9,)),
    ("/agents?updated_since=1&envelope=true", (9,)),
    ("/offices?", (1, 4, 0, 1000)),
    ("/teams?", (1, 5, 0)),
    ("/companies?", (3,)),
]


async def _page(world: World, url: URL | str) -> tuple[ClientResponse, Any]:
    async with world.http.get(url, headers={"x-api-key": world.keys["all"]}) as response:
        body = await response.json()
        assert response.status == 200, body
        return response, body


def _names(path: str, body: Any) -> list[str]:
    return [record[IDENTIFIERS[path.strip("/")]] for record in response_records(body)]


@pytest.mark.parametrize(
    ("index", "companies", "size"), [(index, companies, size) for index, companies, sizes in WALKED for size in sizes]
)
async def test_a_walk_is_the_index_in_order(world: World, index: str, companies: tuple[str, ...], size: int) -> None:
    path = index.partition("?")[0]
    named = world.children() if companies == ("children",) else companies
    expected = source_identifiers(world.of(path[1:], *named))
    page_size = size if size > 0 else len(expected) + size
    url: URL | str | None = f"/v1{index}&page_size={page_size}"
    for first in range(0, len(expected), page_size):
        assert url is not None
        response, body = await _page(world, url)
        names = _names(path, body)
        assert names == expected[first : first + page_size]
        # The cursor of the next link is the last record; the watermark is given on the first page alone.
        assert ("X-Next-Updated-Since" in response.headers) is (first == 0)
        following = response.links.get("next")
        url = URL(following["url"]).relative() if following else None
        assert url is None or url.query["last_platform_listing_id"] == names[-1]
        assert body["FinalPage"] is (url is None)
    assert url is None


@pytest.mark.parametrize(("index", "size"), [(index, size) for index, sizes in NUMBERED for size in sizes])
async def test_numbered_pages_are_the_index_in_order(world: World, index: str, size: int) -> None:
    path = index.partition("?")[0]
    expected = source_identifiers(
        world.of(path[1:], where=lambda envelope: envelope.get("deactivated_at") is None), IDENTIFIERS[path[1:]]
    )
    page_size = size or len(expected)
    pages = -(-len(expected) // page_size)
    for number in range(1, pages + 1):
        response, body = await _page(world, f"/v1{index}&page_size={page_size}&page_number={number}")
        assert _names(path, body) == expected[(number - 1) * page_size : number * page_size]
        counts = [response.headers[f"X-{name}"] for name in ("Page-Number", "Total-Pages", "Total-Count")]
        assert counts == [str(number), str(pages), str(len(expected))]
        numbers = {name: int(URL(link["url"]).query["page_number"]) for name, link in response.links.items()}
        around = {"prev": number - 1, "next": number + 1}
        assert numbers == {"first": 1, "last": pages} | {name: at for name, at in around.items() if 1 <= at <= pages}
        is_enclosed = path == "/offices" or "envelope" in index
        assert isinstance(body, dict) is is_enclosed
        if is_enclosed:
            assert body.keys() == {"page_number", "total_pages", path[1:]}
            assert (body["page_number"], body["total_pages"]) == (number, pages)
        assert ("X-Next-Updated-Since" in response.headers) is (path == "/agents" and number == 1)


@pytest.mark.parametrize("path", ["/agents", "/offices", "/teams", "/companies"])
async def test_numbered_pages_end_with_the_records_and_with_the_result_window(world: World, path: str) -> None:
    past = await world.get(path, page_number=100, page_size=1000)
    assert (past.status, response_records(past.body), past.headers["X-Total-Pages"]) == (200, [], "1")
    assert re.search(r'[?&]page_number=1\b[^>]*>; rel="prev"', past.headers["Link"])
    beyond = await world.get(path, page_number=101, page_size=1000)
    assert (beyond.status, beyond.parameters) == (400, {"page_number"})


@pytest.mark.parametrize(("path", "key"), [("/teams", "all"), ("/companies", "all"), ("/teams", "large")])
async def test_teams_and_companies_are_returned_in_full_unless_pages_are_requested(
    world: World, path: str, key: str
) -> None:
    records = world.of(path[1:], *(() if key == "all" else ("summit-crest",)))
    reply = await world.get(path, key)
    assert _names(path, reply.body) == source_identifiers(records, IDENTIFIERS[path[1:]])
    assert not {"Link", "X-Total-Pages", "X-Total-Count"} & reply.headers.keys()


@pytest.mark.parametrize("cursor", ["!", "zzzz", "orchard-street;", "summit-crest:", "../x", "~", "between"])
async def test_a_cursor_is_a_place_in_the_order_and_need_not_be_a_record(world: World, cursor: str) -> None:
    """It survives the deletion of its record, and leads into no other company."""
    expected = source_identifiers(world.of("listings", "orchard-street"))
    after = f"{expected[10]}0" if cursor == "between" else cursor
    page = await world.answer(
        "/listings",
        platform_company_id="orchard-street",
        market_status="all",
        updated_since=1,
        page_size=1000,
        last_platform_listing_id=after,
    )
    rest = [name for name in expected if name > after]
    assert page == {"FinalPage": True, "Listings": page["Listings"]}
    assert _names("/listings", page) == rest
    assert cursor != "between" or rest == expected[11:]


@pytest.mark.parametrize("path", ["/listings", "/sold_listings", "/agents"])
async def test_the_next_watermark_is_behind_all_that_was_stamped_and_not_ahead_of_now(world: World, path: str) -> None:
    reply = await world.get(path, platform_company_id="summit-crest", page_size=1)
    watermark = int(reply.headers["X-Next-Updated-Since"])
    assert max(unix_time(envelope["updated_at"]) for envelope in world.of(path[1:])) < watermark + 1
    assert watermark <= time.time()
