"""Retries and their budget: a lost node fails no request, an outage adds little load."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from pytest_aiohttp.plugin import AiohttpClient

from cluster.connection import ConnectionSettings
from service.app import create_app
from service.errors import ApiError, DeadlineExceeded, EngineUnavailable
from service.search.engine import RetryBudget
from service.search.responses import NodeLost
from service.settings import ServiceSettings
from tests.internals import Internals
from tests.network.server import Connection, serving
from tests.service.conftest import DEADLINES_SECONDS, Open
from tests.service.stand_in import Reply, StandIn, refusal

NODE_LEFT = [
    "connect_transport_exception",
    "node_closed_exception",
    "node_disconnected_exception",
    "node_not_connected_exception",
]
REPEATED = [refusal(502, kind) for kind in NODE_LEFT] + [refusal(503, NODE_LEFT[0])]
MIXED = b'{"error":{"type":"search_phase_execution_exception","failed_shards":[%b,%b]},"status":503}' % (
    b'{"reason":{"type":"node_disconnected_exception","reason":"gone"}}',
    b'{"reason":{"type":"es_rejected_execution_exception","reason":"full"}}',
)
NOT_REPEATED = [
    refusal(429, "es_rejected_execution_exception"),
    refusal(429, "search_timeout_exception"),
    refusal(503, "search_phase_execution_exception"),
    refusal(503, "no_shard_available_action_exception"),
    Reply(status=502, body=b"bad gateway", content_type="text/plain"),
    Reply(status=503, body=MIXED),
    Reply(body=b"{}"),
]
# What a service has read stays: nothing is read in between.
_READ_ONCE: dict[str, Any] = {"fresh_seconds": 3600.0, "stale_seconds": 7200.0, "revocation_seconds": 7200.0}
OTHERS = [DeadlineExceeded(), EngineUnavailable("full"), ApiError("other")]


@pytest.fixture(autouse=True)
def no_pause(internals: Internals) -> None:
    """Retry without backoff."""
    internals(retry_backoff_seconds=(0.0, 0.0))


@dataclass
class Attempts:
    """Attempts, the first of which fail."""

    error: Exception
    failing: int = 1_000_000
    made: int = 0

    async def __call__(self, seconds: float) -> str:
        assert 0 < seconds <= 10
        self.made += 1
        if self.made <= self.failing:
            raise self.error
        return "answer"


async def lost(connection: Connection) -> None:
    """Read a request and reset the connection."""
    await connection.request()
    connection.reset()


def searches(stand_in: StandIn) -> int:
    """Return how many searches of the listings have come."""
    return len([path for path, _ in stand_in.asked if path == "/listings/_search"])


async def get(api: TestClient[Any, Any], stand_in: StandIn, since: int = 1) -> int:
    """Return the status of a page that no other request shares."""
    path = f"/v1/listings?platform_company_id=acme&updated_since={since}"
    return (await api.get(path, headers={"x-api-key": stand_in.keys[0]})).status


@pytest.fixture
async def known(open_api: Open, stand_in: StandIn) -> TestClient[Any, Any]:
    """A client of a service that has read all that it keeps, and is patient: a busy machine may stall for seconds."""
    stand_in.add("companies", "acme", {}, numeric_id="1")
    stand_in.grant()
    api = await open_api(deadline_seconds=300.0, queue_seconds=300.0, **_READ_ONCE)
    assert await get(api, stand_in, 0) == 200
    stand_in.asked.clear()
    return api


async def test_a_lost_node_costs_one_more_attempt() -> None:
    attempts = Attempts(NodeLost("gone"), failing=1)
    assert await RetryBudget(1, 10).run(attempts) == "answer"
    assert attempts.made == 2


async def test_there_is_no_third_attempt() -> None:
    attempts = Attempts(NodeLost("gone"))
    with pytest.raises(NodeLost):
        await RetryBudget(9, 10).run(attempts)
    assert attempts.made == 2


@pytest.mark.parametrize("error", OTHERS, ids=lambda error: type(error).__name__)
async def test_nothing_else_is_repeated(error: Exception) -> None:
    attempts = Attempts(error)
    with pytest.raises(type(error)):
        await RetryBudget(9, 10).run(attempts)
    assert attempts.made == 1


async def test_there_is_no_second_attempt_when_the_time_is_up(internals: Internals) -> None:
    internals(retry_backoff_seconds=(11.0, 11.0))
    attempts = Attempts(NodeLost("gone"), failing=1)
    with pytest.raises(NodeLost):
        await RetryBudget(9, 10).run(attempts)
    assert attempts.made == 1


@pytest.mark.parametrize("capacity", [0, 1, 5, 64])
async def test_in_an_outage_the_budget_bounds_the_attempts(capacity: int) -> None:
    retries, attempts = RetryBudget(capacity, 10), Attempts(NodeLost("gone"))
    for _ in range(1_000):
        with pytest.raises(NodeLost):
            await retries.run(attempts)
    # Without even one token nothing is ever repeated; a thousand requests earn a hundred.
    assert attempts.made <= 1_000 + (capacity + 100 if capacity else 0)
    assert attempts.made >= 1_000 + (capacity + 90 if capacity else 0)


async def test_every_request_that_the_end_of_a_node_hits_is_repeated() -> None:
    retries = RetryBudget(64, 10)
    assert await asyncio.gather(*(retries.run(Attempts(NodeLost("gone"), failing=1)) for _ in range(64))) == (
        ["answer"] * 64
    )


async def test_a_lost_connection_leads_to_another_node(stand_in: StandIn, aiohttp_client: AiohttpClient) -> None:
    stand_in.add("companies", "acme", {}, numeric_id="1")
    stand_in.grant()
    async with serving(lost) as node:
        settings = ServiceSettings(concurrency=40, key_concurrency=0)
        api = await aiohttp_client(create_app(settings, ConnectionSettings(url=(node.url, stand_in.url))))
        statuses = await asyncio.gather(*(get(api, stand_in, since) for since in range(1, 41)))
    assert statuses == [200] * 40
    assert node.requests


async def test_where_all_nodes_are_lost_attempts_are_bounded(
    stand_in: StandIn, aiohttp_client: AiohttpClient, internals: Internals
) -> None:
    # Keys were never read. Reads for them are spaced; here there is one for each request.
    internals(key_renewal_seconds=0.0)
    stand_in.grant()
    async with serving(lost) as first, serving(lost) as second:
        # Nor are there checks in between, however slow the machine is.
        settings = ServiceSettings(
            key_concurrency=0,
            connections=5,
            refusals_per_minute=0,
            **_READ_ONCE,
        )
        api = await aiohttp_client(create_app(settings, ConnectionSettings(url=(first.url, second.url))))
        statuses = [await get(api, stand_in) for _ in range(100)]
    assert statuses == [503] * 100
    # The slower the machine, the more often it is asked meanwhile whether a node is back.
    made = sum(not request.startswith(b"HEAD / ") for request in [*first.requests, *second.requests])
    print(f"\n{made} attempts for 100 requests while every connection breaks")
    # Five retries of the budget, one more for every ten requests, and the reads before the first request.
    assert 105 <= made <= 120


@pytest.mark.parametrize("reply", REPEATED, ids=range(len(REPEATED)))
async def test_a_node_that_another_one_lost_is_as_if_the_service_had_lost_it(
    known: TestClient[Any, Any], stand_in: StandIn, reply: Reply
) -> None:
    stand_in.out(reply, "listings")
    assert await get(known, stand_in) == 503
    assert searches(stand_in) == 2


@pytest.mark.parametrize("reply", NOT_REPEATED, ids=range(len(NOT_REPEATED)))
async def test_rejections_are_not_retried(known: TestClient[Any, Any], stand_in: StandIn, reply: Reply) -> None:
    stand_in.out(reply, "listings")
    assert await get(known, stand_in) in {503, 504}
    assert searches(stand_in) == 1


async def test_timeouts_are_not_retried(open_api: Open, stand_in: StandIn) -> None:
    stand_in.add("companies", "acme", {}, numeric_id="1")
    stand_in.grant()
    stand_in.out(Reply(delay=30), "listings")
    for seconds in DEADLINES_SECONDS:
        assert await get(await open_api(deadline_seconds=seconds), stand_in) == 504
        if searches(stand_in):
            break
    assert searches(stand_in) == 1


async def test_rejections_add_no_load(known: TestClient[Any, Any], stand_in: StandIn) -> None:
    stand_in.out(refusal(429, "es_rejected_execution_exception"))
    waves = [await asyncio.gather(*(get(known, stand_in, 40 * wave + at) for at in range(40))) for wave in range(5)]
    assert waves == [[503] * 40] * 5
    print(f"\n{len(stand_in.asked)} requests to Elasticsearch for 200 requests while it rejects all")
    assert len(stand_in.asked) <= 1.2 * 200
    stand_in.replies.clear()
    assert await get(known, stand_in, 999) == 200
