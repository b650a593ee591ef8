"""A request ends at its deadline or with its client, by one timeout, and leaves nothing behind."""

import asyncio
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient

from tests.internals import batched_reads, metric, shared_searches
from tests.service.api_client import app_of
from tests.service.conftest import DEADLINES_SECONDS, Open
from tests.service.stand_in import HeldReply, StandIn, read_response
from tests.waiting import until

PATHS = {
    "a walk": "/v1/listings?platform_company_id=acme&updated_since=1",
    "a deep page": "/v1/agents?platform_company_id=acme&page_number=900&page_size=100",
    "a record": "/v1/listings/L1?platform_company_id=acme",
    "a whole collection": "/v1/offices?platform_company_id=acme",
}


@pytest.fixture
def held(stand_in: StandIn) -> HeldReply:
    """Searches of records that never return."""
    stand_in.add("companies", "acme", {}, numeric_id="1")
    stand_in.grant()
    held = HeldReply()
    stand_in.out(held, "listings", "agents", "offices")
    return held


def is_empty(app: web.Application) -> bool:
    """Return whether no search is running."""
    return not shared_searches(app) and not batched_reads(app)


def count(stand_in: StandIn) -> int:
    """Return how many searches of records have come."""
    paths = [path for path, _ in stand_in.asked if "companies" not in path]
    return len([path for path in paths if path.endswith(("/_search", "/_mget"))])


def timeouts() -> float:
    """Return how often a timeout below the handler's has fired."""
    return metric("brokerage_elasticsearch_failures_total", kind="timeout")


def asking(api: TestClient[Any, Any], stand_in: StandIn, path: str, times: int) -> list[asyncio.Task[Any]]:
    """Send so many requests at once."""
    headers = {"x-api-key": stand_in.keys[0]}
    return [asyncio.create_task(api.get(path, headers=headers)) for _ in range(times)]


@pytest.mark.parametrize("times", [1, 5])
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
async def test_at_the_deadline_the_handlers_clock_alone_fires_and_the_search_is_given_up(
    open_api: Open, stand_in: StandIn, held: HeldReply, path: str, times: int
) -> None:
    for seconds in DEADLINES_SECONDS:
        api, before = await open_api(deadline_seconds=seconds), timeouts()
        answers = await asyncio.gather(*asking(api, stand_in, path, times))
        assert [(answer.status, answer.headers["Retry-After"]) for answer in answers] == [(504, "2")] * times
        await until(lambda: len(held.given_up) == count(stand_in))
        assert (is_empty(app_of(api)), timeouts()) == (True, before)
        if count(stand_in):
            break
    assert 1 <= count(stand_in) <= times


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
async def test_when_its_clients_leave_a_search_is_given_up(
    api: TestClient[Any, Any], stand_in: StandIn, held: HeldReply, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    clients = asking(api, stand_in, path, 3)
    await until(lambda: count(stand_in))
    for client in clients:
        client.cancel()
    await until(lambda: len(held.given_up) == count(stand_in) and is_empty(app_of(api)))
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
async def test_a_remaining_request_succeeds_after_the_first_was_cancelled(
    api: TestClient[Any, Any], stand_in: StandIn, held: HeldReply, path: str
) -> None:
    if path == PATHS["a record"]:
        held = HeldReply(body=read_response([], "listings-v0001", ["L1"]))
        stand_in.out(held, "listings")
    (leaving,) = asking(api, stand_in, path, 1)
    await until(lambda: count(stand_in))
    staying = asking(api, stand_in, path, 2)
    await asyncio.sleep(0.05)
    leaving.cancel()
    await asyncio.sleep(0.05)
    held.release.set()
    assert {answer.status for answer in await asyncio.gather(*staying)} <= {200, 404}
    assert is_empty(app_of(api))


async def test_a_connection_that_was_given_up_is_not_used_again(
    open_api: Open, stand_in: StandIn, held: HeldReply
) -> None:
    for seconds in DEADLINES_SECONDS:
        api = await open_api(deadline_seconds=seconds, connections=1)
        held.release.clear()
        for _ in range(3):
            (answer,) = await asyncio.gather(*asking(api, stand_in, PATHS["a walk"], 1))
            assert answer.status == 504
        held.release.set()
        (answer,) = await asyncio.gather(*asking(api, stand_in, PATHS["a walk"], 1))
        if answer.status != 504:
            break
    assert answer.status == 200
