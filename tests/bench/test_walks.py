"""A walk finds the cursor in each answer, meets every record once, and says when it does not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import orjson
import pytest
from aiohttp import web

from bench.client import Answer, Pool
from bench.walks import Company, ServiceWay, TextbookWay, Walker, WalkError, last_sort_value, turned, walk
from tests.bench.servers import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

IDENTIFIERS = [f"{number:08x}-aaaa" for number in range(10)]
ONE = Company("one", len(IDENTIFIERS), IDENTIFIERS[-1])


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    """Connections that are closed afterwards."""
    made = Pool()
    yield made
    made.close()


async def _engine(request: web.Request) -> web.Response:
    """Answer as a search with `search_after` would; a text in the records looks like a sort value."""
    body = await request.json()
    [after] = body.get("search_after", [""])
    found = [identifier for identifier in IDENTIFIERS if identifier > after][: body["size"]]
    hits = [{"_id": each, "_source": {"record": {"remarks": '"sort":["no"]'}}, "sort": [each]} for each in found]
    return web.Response(body=orjson.dumps({"hits": {"hits": hits}}), content_type="application/json")


async def _service(request: web.Request) -> web.Response:
    after, size = request.query.get("last_platform_listing_id", ""), int(request.query["page_size"])
    found = [identifier for identifier in IDENTIFIERS if identifier > after][:size]
    following = f'<http://x/v1/listings?last_platform_listing_id={found[-1]}&page_size={size}>; rel="next"'
    return web.Response(text="x" * 100, headers={"Link": following} if found[-1] != IDENTIFIERS[-1] else {})


@pytest.mark.parametrize(("size", "pages"), [(3, 4), (5, 2), (10, 1), (20, 1), (1, 10)])
async def test_both_ways_walk_to_the_last_record(pool: Pool, size: int, pages: int) -> None:
    async with serving(_engine) as engine, serving(_service) as service:
        for server, way in (
            (engine, TextbookWay(engine, "/i/_search", "textbook, unsorted", size)),
            (service, ServiceWay(service, "/v1/listings", "key", size)),
        ):
            [connection] = await pool.take(server, 1)
            walked = await walk(connection, way, ONE, size)
            assert walked[0] == pages
            assert walked[1] > 0


async def test_a_walk_that_ends_early_is_no_walk(pool: Pool) -> None:
    async with serving(_service) as url:
        [connection] = await pool.take(url, 1)
        with pytest.raises(WalkError, match="one ended at page 4 of 5"):
            await walk(connection, ServiceWay(url, "/v1/listings", "key", 3), Company("one", 13, "z"), 3)


async def test_a_walk_that_does_not_reach_the_last_record_is_no_walk(pool: Pool) -> None:
    async with serving(_engine) as url:
        [connection] = await pool.take(url, 1)
        way = TextbookWay(url, "/i/_search", "textbook, unsorted", 3)
        with pytest.raises(WalkError, match="one ended at 00000008-aaaa and not at 00000009-aaaa"):
            await walk(connection, way, Company("one", 9, IDENTIFIERS[-1]), 3)


async def test_a_walk_that_goes_round_in_circles_is_no_walk(pool: Pool) -> None:
    async def always_the_first(_: web.Request) -> web.Response:
        return web.Response(headers={"Link": '<http://x?last_platform_listing_id=a>; rel="next"'})

    async with serving(always_the_first) as url:
        [connection] = await pool.take(url, 1)
        with pytest.raises(WalkError, match="went back"):
            await walk(connection, ServiceWay(url, "/", "key", 1), ONE, 1)


@pytest.mark.parametrize(
    ("tail", "value"),
    [
        (b'"sort":["a"]},{"_id":"b","sort":["b"]}]}}', "b"),
        (b'"sort":["summit-crest","b"]}]}}', "b"),
        (b'"sort":["b\\"]c"]}]}}', None),
        (b'"hits":[]}}', None),
    ],
)
def test_the_last_sort_value_is_found_from_the_end(tail: bytes, value: str | None) -> None:
    if value is None and b"sort" in tail:
        # No identifier holds a bracket behind a quote; if one ever does, it is noticed.
        with pytest.raises(orjson.JSONDecodeError):
            last_sort_value(tail)
    else:
        assert last_sort_value(tail) == value


@pytest.mark.parametrize(
    ("link", "cursor"),
    [
        ('<http://x/v1/listings?page_size=2&last_platform_listing_id=a%20b>; rel="next"', "a b"),
        ('<http://x/v1/listings?last_platform_listing_id=a&page_size=2>; rel="next"', "a"),
        ('<http://x/v1/listings?last_platform_listing_id=a>; rel="prev"', None),
        (None, None),
    ],
)
def test_the_cursor_of_the_service_stands_in_its_link(link: str | None, cursor: str | None) -> None:
    head = b"HTTP/1.1 200 OK\r\n" + (f"Link: {link}\r\n".encode() if link else b"") + b"\r\n"
    assert ServiceWay("http://x", "/", "key", 1).cursor(Answer(head, 0, ())) == cursor


def test_all_walk_every_company_and_take_turns_at_being_first() -> None:
    companies = [Company(key, 1, "") for key in "abc"]
    order = [(name, company.key) for name, company in turned(("x", "y"), companies)]
    assert order == [("x", "a"), ("y", "a"), ("y", "b"), ("x", "b"), ("x", "c"), ("y", "c")]


async def test_a_server_that_closed_the_connection_between_two_companies_is_asked_over_another(pool: Pool) -> None:
    async def closing(request: web.Request) -> web.Response:
        response = await _service(request)
        if response.headers.get("Link") is None:
            response.force_close()
        return response

    async with serving(closing) as service:
        walker = Walker(ServiceWay(service, "/v1/listings", "key", 3), pool, service, {})
        for company in (ONE, Company("two", len(IDENTIFIERS), IDENTIFIERS[-1])):
            await walker.company(company, 3)
            await asyncio.sleep(0.05)  # the end of the connection takes a moment to arrive
    assert (walker.done.pages, [*walker.done.seconds]) == (8, ["one", "two"])
