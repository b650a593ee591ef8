"""A walk finds the cursor in each answer, meets every record once, and says when it does not."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from bench.client import Answer, Pool
from bench.walks import Company, ServiceWay, WalkError, walk, walk_all
from tests.bench.servers import serving

IDENTIFIERS = [f"{number:08x}-aaaa" for number in range(10)]
ONE = Company("one", len(IDENTIFIERS), IDENTIFIERS[-1])


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    """Connections that are closed afterwards."""
    made = Pool()
    yield made
    made.close()


async def _service(request: web.Request) -> web.Response:
    after, size = request.query.get("last_platform_listing_id", ""), int(request.query["page_size"])
    found = [identifier for identifier in IDENTIFIERS if identifier > after][:size]
    following = f'<http://x/v1/listings?last_platform_listing_id={found[-1]}&page_size={size}>; rel="next"'
    return web.Response(text="x" * 100, headers={"Link": following} if found[-1] != IDENTIFIERS[-1] else {})


@pytest.mark.parametrize(("size", "pages"), [(3, 4), (5, 2), (10, 1), (20, 1), (1, 10)])
async def test_a_walk_reaches_the_last_record(pool: Pool, size: int, pages: int) -> None:
    async with serving(_service) as url:
        [connection] = await pool.take(url, 1)
        walked = await walk(connection, ServiceWay(url, "/v1/listings", "key", size), ONE)
    assert walked == (pages, 100 * pages)


async def test_a_walk_that_ends_early_is_rejected(pool: Pool) -> None:
    async with serving(_service) as url:
        [connection] = await pool.take(url, 1)
        with pytest.raises(WalkError, match="one ended at page 4 of 5"):
            await walk(connection, ServiceWay(url, "/v1/listings", "key", 3), Company("one", 13, "z"))


async def test_a_walk_that_does_not_reach_the_last_record_is_rejected(pool: Pool) -> None:
    async with serving(_service) as url:
        [connection] = await pool.take(url, 1)
        with pytest.raises(WalkError, match="one ended at 00000008-aaaa and not at 00000009-aaaa"):
            await walk(connection, ServiceWay(url, "/v1/listings", "key", 3), Company("one", 9, IDENTIFIERS[-1]))


async def test_a_walk_that_repeats_pages_is_rejected(pool: Pool) -> None:
    async def always_the_first(_: web.Request) -> web.Response:
        return web.Response(headers={"Link": '<http://x?last_platform_listing_id=a>; rel="next"'})

    async with serving(always_the_first) as url:
        [connection] = await pool.take(url, 1)
        with pytest.raises(WalkError, match="went back"):
            await walk(connection, ServiceWay(url, "/", "key", 1), ONE)


@pytest.mark.parametrize(
    ("link", "cursor"),
    [
        ('<http://x/v1/listings?page_size=2&last_platform_listing_id=a%20b>; rel="next"', "a b"),
        ('<http://x/v1/listings?last_platform_listing_id=a&page_size=2>; rel="next"', "a"),
        ('<http://x/v1/listings?last_platform_listing_id=a>; rel="prev"', None),
        (None, None),
    ],
)
def test_the_cursor_of_the_service_is_in_its_link(link: str | None, cursor: str | None) -> None:
    head = b"HTTP/1.1 200 OK\r\n" + (f"Link: {link}\r\n".encode() if link else b"") + b"\r\n"
    assert ServiceWay("http://x", "/", "key", 1).cursor(Answer(head, 0, ())) == cursor


async def test_all_companies_are_walked(pool: Pool) -> None:
    async with serving(_service) as url:
        way, two = ServiceWay(url, "/v1/listings", "key", 3), Company("two", len(IDENTIFIERS), IDENTIFIERS[-1])
        done = await walk_all(pool, way, [ONE, two], {})
    assert (done.pages, [*done.seconds], done.bytes) == (8, ["one", "two"], 800)
