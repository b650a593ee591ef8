"""Requests are released at once: what waits for the garbage collector is memory of a worker under attack."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.test_utils import TestClient

from service.errors import ApiError
from tests.service.raw_http import serve_raw
from tests.service.stand_in import StandIn, refusal
from tests.waiting import until

REQUESTS = 20


@contextmanager
def unreleased() -> Iterator[list[str]]:
    """Collect the types of requests, connections, and errors that are left to the garbage collector."""
    found: list[str] = []
    # The collection below then looks only at what is allocated from here on.
    gc.freeze()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        kept = (web.RequestHandler, web.BaseRequest, AbstractStreamWriter, ApiError)
        found += [type(item).__name__ for item in gc.garbage if isinstance(item, kept)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/listings?updatd_since=1", 400),
        ("/v1/listings?page_size=many", 400),
        ("/v1/reso/Property?$filter=Nothing eq 1", 400),
        ("/v1/listings/unknown", 404),
        ("/v1/unknown", 404),
        ("/v1/companies", 200),
    ],
)
async def test_a_request_is_released(api: TestClient[Any, Any], stand_in: StandIn, path: str, status: int) -> None:
    headers = {"x-api-key": stand_in.grant()}
    assert await _status(api, path, headers) == status
    with unreleased() as found:
        for _ in range(REQUESTS):
            await _status(api, path, headers)
    assert found == []


async def test_a_request_is_released_when_elasticsearch_refuses(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    headers = {"x-api-key": stand_in.grant()}
    stand_in.out(refusal(429, "es_rejected_execution_exception"), "companies")
    assert await _status(api, "/v1/companies", headers) == 503
    with unreleased() as found:
        for _ in range(REQUESTS):
            await _status(api, "/v1/companies", headers)
    assert found == []


@pytest.mark.parametrize("key", ["", "not-a-key"])
async def test_a_refused_stranger_is_released(api: TestClient[Any, Any], key: str) -> None:
    assert await _status(api, "/v1/listings", {"x-api-key": key}) == 401
    with unreleased() as found:
        for _ in range(REQUESTS):
            await _status(api, "/v1/listings", {"x-api-key": key})
    assert found == []


async def test_a_request_over_the_rate_is_released(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    headers = {"x-api-key": stand_in.grant(rate=1)}
    statuses = [await _status(api, "/v1/listings", headers) for _ in range(REQUESTS)]
    assert statuses[-1] == 429
    with unreleased() as found:
        for _ in range(REQUESTS):
            await _status(api, "/v1/listings", headers)
    assert found == []


@pytest.mark.parametrize(
    "sent",
    ["GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", "no HTTP at all\r\n\r\n"],
    ids=["body", "HTTP"],
)
async def test_a_client_that_leaves_without_sending_what_it_must_is_released(sent: str) -> None:
    async with serve_raw("http://127.0.0.1:9") as port:
        others = len(asyncio.all_tasks())

        async def leave() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent.encode())
            assert b" 400 " in await reader.readline()
            writer.close()
            await writer.wait_closed()
            await until(lambda: len(asyncio.all_tasks()) == others)

        await leave()
        with unreleased() as found:
            for _ in range(REQUESTS):
                await leave()
    assert found == []


async def _status(api: TestClient[Any, Any], path: str, headers: dict[str, str]) -> int:
    async with api.get(path, headers=headers) as response:
        await response.read()
        return response.status
