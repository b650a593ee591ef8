"""The next page of who walks on is searched for while the one before is on its way; nobody else's is."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from service.flights import Flights
from tests.waiting import Hurry

if TYPE_CHECKING:
    from aiohttp.test_utils import TestClient

    from tests.service.conftest import Open
    from tests.service.stand_in import StandIn

PATH = "/v1/listings?platform_company_id=acme&updated_since=1&page_size=1"
NEXT = f"{PATH}&last_platform_listing_id=L1"
MARK = {"clock": 2_000_000, "sequence": 1, "epoch": 0, "generation": "listings-v0001"}


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let marks be settled at once, however long pages are read ahead."""
    monkeypatch.setattr("service.freshness.time", Hurry(3600.0))


@pytest.fixture
async def api(open_api: Open) -> TestClient[Any, Any]:
    """A client of the service that reads ahead."""
    return await open_api(shared_seconds=60.0)


@pytest.fixture
def key(stand_in: StandIn) -> dict[str, str]:
    """The header with a key. Every search finds the same three listings, so that page follows page."""
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")
    for name in ("L1", "L2", "L3"):
        stand_in.add("listings", name, {"PlatformListingId": name})
    return {"x-api-key": stand_in.grant()}


def count(stand_in: StandIn) -> int:
    """Return how many searches of the listings have come."""
    return len([path for path, _ in stand_in.asked if path == "/listings/_search"])


async def searches(stand_in: StandIn) -> int:
    """Return the same once nothing more comes."""
    await asyncio.sleep(0.1)
    return count(stand_in)


async def get(api: TestClient[Any, Any], key: dict[str, str], path: str) -> bytes:
    """Return an answer's body."""
    response = await api.get(path, headers=key)
    assert response.status == 200
    return await response.read()


@pytest.mark.parametrize("has_mark", [False, True])
async def test_the_third_page_of_a_walk_is_there_when_it_is_asked_for(
    api: TestClient[Any, Any], stand_in: StandIn, key: dict[str, str], has_mark: bool
) -> None:
    if has_mark:
        stand_in.documents["control", "mark-listings"] = MARK
    first = await get(api, key, PATH)
    assert await searches(stand_in) == 1
    assert await get(api, key, NEXT) == first
    assert await searches(stand_in) == 3
    assert await get(api, key, NEXT) == first
    assert await searches(stand_in) == 4


async def test_pages_that_follow_no_other_are_not_followed(
    api: TestClient[Any, Any], stand_in: StandIn, key: dict[str, str]
) -> None:
    for cursor in ("A", "B", "A"):
        await get(api, key, f"{PATH}&last_platform_listing_id={cursor}")
    await get(api, key, NEXT.replace("page_size=1", "page_size=2"))
    assert await searches(stand_in) == 4


async def test_the_page_of_another_scope_is_not_taken(
    api: TestClient[Any, Any], stand_in: StandIn, key: dict[str, str]
) -> None:
    stand_in.add("companies", "other", {"platform_company_id": "other"}, numeric_id="2")
    for path in (PATH, NEXT):
        await get(api, key, path)
    before = await searches(stand_in)
    await get(api, key, NEXT.replace("acme", "other"))
    assert await searches(stand_in) == before + 1


async def test_a_page_that_nobody_comes_for_is_dropped(open_api: Open, stand_in: StandIn, key: dict[str, str]) -> None:
    api = await open_api(shared_seconds=0.02)
    for path in (PATH, NEXT):
        await get(api, key, path)
    assert await searches(stand_in) == 3
    await get(api, key, NEXT)
    assert await searches(stand_in) == 5


async def test_a_page_is_not_older_than_a_mark_that_was_read_meanwhile(
    open_api: Open, stand_in: StandIn, key: dict[str, str]
) -> None:
    api = await open_api(fresh_seconds=0.0, stale_seconds=0.0, shared_seconds=60.0)
    for path in (PATH, NEXT):
        await get(api, key, path)
    assert await searches(stand_in) == 3
    stand_in.documents["control", "mark-listings"] = MARK
    await get(api, key, PATH)
    assert await searches(stand_in) == 4
    await get(api, key, NEXT)
    assert await searches(stand_in) == 6


async def test_a_failure_ahead_is_nobodys(caplog: pytest.LogCaptureFixture) -> None:
    flights = Flights[str](Mock(), oldest=1.0)

    async def fail() -> str:
        raise ValueError

    async def work() -> str:
        return "anew"

    flights.begin_ahead("a", fail)
    await asyncio.sleep(0.01)
    assert await flights.join("a", work) == "anew"
    gc.collect()
    assert caplog.records == []


async def test_nothing_is_begun_ahead_while_anything_is_under_way() -> None:
    flights, ends, begun = Flights[str](Mock(), oldest=1.0), asyncio.Event(), list[str]()

    async def work(name: str) -> str:
        begun.append(name)
        await ends.wait()
        return name

    asking = asyncio.create_task(flights.join("a", lambda: work("a")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    flights.begin_ahead("b", lambda: work("b"))
    ends.set()
    assert (await asking, begun) == ("a", ["a"])
    flights.begin_ahead("b", lambda: work("b"))
    await asyncio.sleep(0.01)
    assert await flights.join("b", lambda: work("c")) == "b"
    assert (begun, flights._flights) == (["a", "b"], {})
