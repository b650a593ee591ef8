"""Requests of different costs, counted in one process and in Redis: headers, refusals, and what is returned."""

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient

from service.reso.cost import MAX_FILTER_COST
from service.reso.sets.declarations import ENTITY_SETS
from tests.internals import Internals
from tests.service.conftest import Open
from tests.service.limits.redis_server import RedisServer
from tests.service.stand_in import StandIn

_PATTERNS = " and ".join(f"contains(ListingId,'{number}')" for number in range(60))
# By their cost.
_ORDERS = [name for name in ENTITY_SETS["Property"].sortable if name != "ListingKey"][:10]
_COSTS: dict[int, tuple[str, ...]] = {
    1: (
        "/v1/listings?platform_company_id=acme&page_size=1000",
        "/v1/agents?page_number=7&page_size=1000",
        "/v1/reso/Property?$top=1000&$count=true",
        "/v1/reso/Property?$orderby=ListPrice,City desc",
        "/v1/reso/Property?$filter=ListingKey gt 'a'&$orderby=ListingKey",
        "/v1/reso/Property?$filter=ListPrice ge 1 and ListPrice lt 9 and BedroomsTotal ge 3 and City eq 'A'",
        "/v1/reso/Property?$filter=startswith(ListingId,'A')",
        "/v1/reso/Property?$expand=Media,ListAgent&$filter=ModificationTimestamp gt 2026-01-01T00:00:00Z",
        "/v1/reso/Member?$filter=contains(OfficeKey,'a')",
    ),
    3: (
        "/v1/reso/Property?$skip=1000",
        "/v1/reso/Media?$skip=1000",
        "/v1/reso/Property?$top=1000&$expand=Media",
        "/v1/reso/Property?$filter=contains(City,'a')",
    ),
    6: (
        "/v1/reso/Property?$filter=contains(ListingId,'a') or contains(ListingId,'b')",
        "/v1/reso/Property/$count?$filter=contains(ListingId,'a')",
    ),
    9: (f"/v1/reso/Property?$skip=2000&$orderby={','.join(_ORDERS)}",),
    5: ("/v1/reso/Media?$filter=MediaKey in (" + ",".join(f"'{number}!0'" for number in range(400)) + ")",),
}
_COSTLY = _COSTS[6][0]


@pytest.fixture(params=["process", "redis"])
async def api(
    request: pytest.FixtureRequest, tmp_path: Path, open_api: Open, stand_in: StandIn, internals: Internals
) -> AsyncIterator[TestClient[Any, Any]]:
    """A service that counts in either; nothing comes back in time."""
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")
    if request.param == "process":
        internals(rates_time=SimpleNamespace(monotonic_ns=lambda: 0))
        yield await open_api()
        return
    internals(redis_response_timeout=60.0, redis_connect_timeout=60.0)
    server = RedisServer(tmp_path)
    try:
        server.start()
        yield await open_api(redis_url=server.url)
    finally:
        server.stop()


async def _asked(api: TestClient[Any, Any], key: str, path: str, **headers: str) -> ClientResponse:
    response = await api.get(path, headers={"x-api-key": key, **headers})
    await response.read()
    return response


async def _remaining(api: TestClient[Any, Any], key: str, path: str, **headers: str) -> tuple[int, int]:
    """Return the status of a request, and how many requests are left after it."""
    response = await _asked(api, key, path, **headers)
    return response.status, int(response.headers["X-RateLimit-Remaining"])


@pytest.mark.parametrize(("cost", "path"), [(cost, path) for cost, paths in _COSTS.items() for path in paths])
async def test_a_request_takes_its_cost_from_the_rate(
    api: TestClient[Any, Any], stand_in: StandIn, cost: int, path: str
) -> None:
    assert await _remaining(api, stand_in.grant(rate=1, burst=40), path) == (200, 40 - cost)


async def test_a_cost_that_is_not_left_is_refused_and_takes_nothing(
    api: TestClient[Any, Any], stand_in: StandIn
) -> None:
    key = stand_in.grant(rate=1, burst=10)
    assert [await _remaining(api, key, _COSTLY) for _ in range(3)] == [(200, 4), (429, 4), (429, 4)]
    stand_in.asked.clear()
    refused = await _asked(api, key, _COSTLY)
    # Two more than the four that are left, each of which takes a minute.
    assert refused.status == 429
    assert 60 < int(refused.headers["Retry-After"]) <= 120
    assert [path for path in stand_in.asked if "listings" in path] == []
    assert await _remaining(api, key, "/v1/companies") == (200, 3)


async def test_a_full_bucket_allows_any_request(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    assert await _remaining(api, stand_in.grant(rate=1, burst=2), _COSTLY) == (200, 0)
    assert await _remaining(api, stand_in.grant(rate=1, burst=1), _COSTLY) == (200, 0)


async def test_what_is_not_modified_returns_its_cost_as_often_as_the_rate_allows_it(
    api: TestClient[Any, Any], stand_in: StandIn
) -> None:
    key = stand_in.grant(rate=1, burst=13)
    tag = {"If-None-Match": (await _asked(api, key, _COSTLY)).headers["ETag"]}
    assert [await _remaining(api, key, _COSTLY, **tag) for _ in range(3)] == [(304, 7), (304, 7), (304, 1)]


async def test_too_costly_a_filter_is_refused_before_elasticsearch_is_asked(
    api: TestClient[Any, Any], stand_in: StandIn
) -> None:
    key = stand_in.grant(rate=1, burst=40)
    await _asked(api, key, "/v1/companies")
    stand_in.asked.clear()
    for path in ("Property?$filter=", "Property/$count?$filter=", "Property?$count=true&$skip=1&$filter="):
        response = await _asked(api, key, f"/v1/reso/{path}{_PATTERNS}")
        error = orjson.loads(await response.read())["error"]
        assert (response.status, error["target"]) == (400, "$filter")
        assert f"at most {MAX_FILTER_COST} are accepted. Send several requests" in error["message"]
    assert stand_in.asked == []
