"""Herds of requests that wait for changes: all are served, from one search, and no others are woken."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from mappings import LISTING, OFFICE
from service.app import create_app
from service.changes.sharing import ChangeNotifier
from service.limits.admission import RequestKind
from service.services import SERVICES, Services
from tests.feed.conftest import SETTINGS
from tests.feed.feed_client import FeedClient, listing, office
from tests.internals import Internals
from tests.service_settings import with_settings
from tests.waiting import until

# As few slots as there can be, none of them queued for.
NARROW = with_settings(SETTINGS, concurrency=1, queue=0, queue_seconds=0.0, key_concurrency=0, waiting=5000)


@pytest.fixture
async def narrow(feed: FeedClient) -> AsyncIterator[FeedClient]:
    """The same service, with a single slot."""
    async with TestClient(TestServer(create_app(NARROW, feed.bench.connection))) as http:
        yield FeedClient(http, feed.keys, feed.bench)


def services(feed: FeedClient) -> Services:
    """Return the services of the application."""
    found: Services = feed.http.server.app[SERVICES]  # type: ignore[attr-defined]
    return found


def count_searches(feed: FeedClient, internals: Internals) -> list[str]:
    """Return a list that gets the alias of each search for listings or offices."""
    searched, search = list[str](), internals.present("engine_search")
    aliases = [feed.bench.connection.alias(each) for each in (LISTING, OFFICE)]

    async def noted(engine: object, index: str, *sent: Any) -> bytes:
        searched.extend(alias for alias in aliases if alias == index)
        return await search(engine, index, *sent)  # type: ignore[no-any-return]

    internals(engine_search=noted)
    return searched


async def wait(feed: FeedClient, key: str, **parameters: Any) -> asyncio.Task[Any]:
    """Return a request that waits, once it is asleep."""
    notifier = services(feed).of(ChangeNotifier)
    before = notifier.waiting
    task = asyncio.create_task(feed.json("changes", key, wait=30, **parameters))
    await until(lambda: notifier.waiting > before)
    return task


async def test_a_herd_is_served_from_one_search_for_each_scope(
    narrow: FeedClient, internals: Internals, amount: Callable[[int, int], int]
) -> None:
    tokens = {key: await narrow.token(key) for key in ("a", "ab", "all")}
    # Both keys have the same companies, but one may not see every field.
    tokens["poor"] = await narrow.token("poor")
    herd = [await wait(narrow, key, since=tokens[key]) for _ in range(amount(10, 250)) for key in tokens]
    searched = count_searches(narrow, internals)
    await narrow.update(listing("L0", "a", 1, price=7), listing("L1", "b", 1, price=8))
    pages = await asyncio.gather(*herd)
    found = {key: [each["id"] for each in page["changes"]] for key, page in zip([*tokens] * len(herd), pages)}  # noqa: B905
    assert found == {"a": ["L0"], "poor": ["L0"], "ab": ["L0", "L1"], "all": ["L0", "L1"]}
    assert len({str(page) for page in pages}) == len(tokens)
    assert searched == [narrow.bench.connection.alias(LISTING)] * len(tokens)
    limit = services(narrow).limits.admission.limits[RequestKind.LONG_POLL]
    assert (limit.refused, limit.running, limit.waiting) == (0, 0, 0)


async def test_requests_for_other_resources_stay_asleep(narrow: FeedClient, internals: Internals) -> None:
    token = await narrow.token()
    of_offices = await wait(narrow, "a", since=token, resources="offices")
    of_listings = await wait(narrow, "a", since=token, resources="listings")
    searched = count_searches(narrow, internals)
    await narrow.update(listing("L0", "a", 1, price=7))
    assert len((await of_listings)["changes"]) == 1
    assert services(narrow).of(ChangeNotifier).waiting == 1
    assert searched == [narrow.bench.connection.alias(LISTING)]
    await narrow.update(office("O1", "a", 1), resource=OFFICE)
    assert len((await of_offices)["changes"]) == 1


async def test_a_request_without_news_needs_no_slot(narrow: FeedClient) -> None:
    token = await narrow.token()
    async with services(narrow).limits.admission.limits[RequestKind.PAGE].slot("x"):
        assert (await narrow.json("changes", since=token))["changes"] == []
        assert await narrow.problem("changes") == (503, "overloaded")


async def test_requests_are_woken_when_the_process_stops(narrow: FeedClient) -> None:
    token = await narrow.token()
    waiting = await wait(narrow, "a", since=token)
    await services(narrow).of(ChangeNotifier).close()
    page = await waiting
    assert (page["changes"], page["at_end"]) == ([], True)
    # Another one is not held.
    assert (await narrow.json("changes", since=token, wait=30))["changes"] == []


async def test_a_client_that_leaves_is_forgotten(narrow: FeedClient) -> None:
    notifier: ChangeNotifier = services(narrow).of(ChangeNotifier)
    waiting = await wait(narrow, "a", since=await narrow.token())
    waiting.cancel()
    await until(lambda: notifier.waiting == 0)
    await until(lambda: notifier._polling is None)
