"""Running searches are shared by identical requests, never by keys with different permissions."""

import asyncio
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestClient

from cluster.connection import ConnectionSettings
from cluster.control_index import mark_id
from service.app import create_app
from service.http.connection import ServiceRunner
from service.settings import ServiceSettings
from tests.internals import Clock, Internals, shared_searches
from tests.service.api_client import app_of
from tests.service.conftest import Open
from tests.service.stand_in import HeldReply, Reply, StandIn, read_response, search_response
from tests.waiting import until

PATH = "/v1/listings?platform_company_id=acme&updated_since=1"
MARK = {"clock": 1_000_000, "sequence": 1, "epoch": 0, "generation": "listings-v0001"}


@pytest.fixture
def hurry(internals: Internals) -> float:
    """How long searches are shared, in seconds; marks are settled at once all the same."""
    internals(cache_time=Clock(step=3600.0))
    return 3600.0


@pytest.fixture
async def api(open_api: Open, hurry: float) -> TestClient[Any, Any]:
    """A client of the service that shares searches."""
    return await open_api(shared_seconds=hurry)


@pytest.fixture(autouse=True)
def held(stand_in: StandIn) -> HeldReply:
    """The answer to each search of the listings, of which a mark is published; there are two companies."""
    for company in ("acme", "other"):
        stand_in.add("companies", company, {}, numeric_id=company)
    stand_in.documents["control", mark_id("listings")] = MARK
    held = HeldReply()
    stand_in.out(held, "listings")
    return held


def searches(stand_in: StandIn) -> list[Any]:
    """Return the bodies of the searches of the listings that have come."""
    return [body for path, body in stand_in.asked if path == "/listings/_search"]


def waiting(app: web.Application) -> list[int]:
    """Return how many requests wait for each running search of the listings."""
    return shared_searches(app, "listings")


async def statuses(
    api: TestClient[Any, Any], held: HeldReply, asked: list[tuple[str, str]], shared: list[int]
) -> list[int]:
    """Return the statuses of requests, (path, key) each, released once they wait as `shared` says."""
    asking = [asyncio.create_task(api.get(path, headers={"x-api-key": key})) for path, key in asked]
    await until(lambda: waiting(app_of(api)) == shared)
    held.release.set()
    return [response.status for response in await asyncio.gather(*asking)]


async def test_concurrent_identical_requests_are_one_search(
    api: TestClient[Any, Any], stand_in: StandIn, held: HeldReply
) -> None:
    keys = [stand_in.grant() for _ in range(3)]
    assert await statuses(api, held, [(PATH, key) for key in keys * 4], [12]) == [200] * 12
    assert len(searches(stand_in)) == 1
    assert (await api.get(PATH, headers={"x-api-key": keys[0]})).status == 200
    assert len(searches(stand_in)) == 2


async def test_records_are_gathered_within_one_scope_only(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    held = HeldReply(body=read_response([], "listings-v0001", ["L1"]))
    stand_in.out(held, "listings")
    granted = (["acme"], ["acme"], ["other"], ["acme", "other"], ["other", "acme"])
    keys = [*(stand_in.grant(companies=companies) for companies in granted), stand_in.grant()]

    def reads() -> int:
        return len([path for path, _ in stand_in.asked if path == "/listings/_mget"])

    asking = [asyncio.create_task(api.get("/v1/listings/L1", headers={"x-api-key": key})) for key in keys]
    await until(lambda: reads() == 4)
    held.release.set()
    assert [response.status for response in await asyncio.gather(*asking)] == [404] * 6
    assert reads() == 4


async def test_other_parameters_are_another_search(
    api: TestClient[Any, Any], stand_in: StandIn, held: HeldReply
) -> None:
    key = stand_in.grant()
    paths = [PATH, f"{PATH}&page_size=7", PATH.replace("since=1", "since=2"), f"{PATH}&last_platform_listing_id=L1"]
    await statuses(api, held, [(path, key) for path in paths * 2], [2, 2, 2, 2])
    assert len(searches(stand_in)) == 4


async def test_a_failure_reaches_all(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    held = HeldReply(status=503)
    stand_in.out(held, "listings")
    assert await statuses(api, held, [(PATH, stand_in.grant())] * 5, [5]) == [503] * 5
    assert len(searches(stand_in)) == 1


async def test_a_page_of_one_process_is_never_older_than_what_it_has_read_of_the_index(
    open_api: Open, stand_in: StandIn, held: HeldReply, hurry: float
) -> None:
    api = await open_api(fresh_seconds=0.0, stale_seconds=0.0, shared_seconds=hurry)
    headers = {"x-api-key": stand_in.grant()}
    early = asyncio.create_task(api.get(PATH, headers=headers))
    await until(lambda: waiting(app_of(api)) == [1])
    # The indexer publishes while the first search is running: that one may lack what the new mark promises.
    stand_in.documents["control", mark_id("listings")] = {**MARK, "clock": 2_000_000}
    late = [asyncio.create_task(api.get(PATH, headers=headers)) for _ in range(2)]
    await until(lambda: waiting(app_of(api)) == [1, 2])
    held.release.set()
    watermarks = [response.headers["X-Next-Updated-Since"] for response in await asyncio.gather(early, *late)]
    assert watermarks == ["1000", "2000", "2000"]
    assert len(searches(stand_in)) == 2


async def test_a_watermark_is_reported_once_no_process_can_respond_from_before_it(
    open_api: Open, stand_in: StandIn, internals: Internals
) -> None:
    stand_in.out(Reply(body=search_response()), "listings")
    # The first reading is settled at once; after it, only the test moves the clock.
    clock = Clock(step=3600.0)
    internals(cache_time=clock)
    api = await open_api(fresh_seconds=0.0, stale_seconds=0.0, shared_seconds=0.5)
    headers = {"x-api-key": stand_in.grant()}

    async def watermark() -> str:
        return (await api.get(PATH, headers=headers)).headers["X-Next-Updated-Since"]

    assert await watermark() == "1000"
    clock.step = 0.0
    stand_in.documents["control", mark_id("listings")] = {**MARK, "clock": 2_000_000}
    # Another process may have begun a search just before, and answer from it for half a second.
    assert await watermark() == "1000"
    clock.now += 0.4
    assert await watermark() == "1000"
    clock.now += 0.2
    assert await watermark() == "2000"


async def test_a_search_is_cancelled_with_its_last_client(stand_in: StandIn, held: HeldReply) -> None:
    settings, connection = ServiceSettings(), ConnectionSettings(url=(stand_in.url,))
    service = ServiceRunner(create_app(settings, connection), settings)
    await service.setup()
    await web.TCPSite(service, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{service.addresses[0][1]}{PATH}"
    async with ClientSession(headers={"x-api-key": stand_in.grant()}) as client:
        asking = [asyncio.create_task(client.get(url)) for _ in range(3)]
        for left in (3, 2, 1):
            expected = [left]
            await until(lambda: waiting(service.app) == expected)  # noqa: B023 - awaited at once
            assert held.given_up == []
            asking[-left].cancel()
        await until(lambda: held.given_up)
    assert (len(searches(stand_in)), len(held.given_up), waiting(service.app)) == (1, 1, [])
    await service.cleanup()
