"""The headers of every response: each route with each of its statuses, over the service's own connections."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from mappings import COMPANY, RESOURCES
from service.app import API_ROOT
from service.errors import ApiError
from service.http.responses import EXTRA_HEADERS
from service.keys.api_key import ApiKey
from service.keys.authentication import authenticate
from service.resources import OPERATIONS
from tests.internals import Internals
from tests.service.index_sandbox import OPERATION_PATHS
from tests.service.raw_http import RawResponse, exchange_one, request, serve_raw
from tests.service.stand_in import Reply, StandIn

KEPT_BY_CLIENTS = {"Cache-Control": "private, no-cache", "Vary": "x-api-key, Accept-Encoding"}
NEVER_KEPT = {"Cache-Control": "no-store"}
PROBES = ["/livez", "/readyz", "/startupz"]
PATHS = [API_ROOT + path for path in OPERATION_PATHS.values()]
RECORDS = [resource for resource in RESOURCES if resource is not COMPANY]


class Limited(ApiError):
    """An example of a refusal."""

    status = 429
    code = "limited"
    title = "Limited"


@pytest.fixture
async def port(stand_in: StandIn) -> AsyncIterator[int]:
    """The port of a service with one record of each kind."""
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")
    for resource in RECORDS:
        stand_in.add(resource.alias, "one", {resource.identifier: "one"})
    # Reports the identifier by which an agent was found.
    stand_in.hits["agents"] = [hit[:-1] + b',"matched_queries":["agent_uuid"]}' for hit in stand_in.hits["agents"]]
    async with serve_raw(stand_in.url) as port:
        yield port


@pytest.fixture
def key(stand_in: StandIn) -> dict[str, str]:
    """The header with a key for all."""
    return {"x-api-key": stand_in.grant()}


def check(answer: RawResponse, status: int, kept: dict[str, str]) -> None:
    """Check what every response must and must not have."""
    assert answer.status == status
    assert answer.headers.getall("X-Content-Type-Options") == ["nosniff"]
    assert answer.headers.getall("Referrer-Policy") == ["no-referrer"]
    assert len(answer.headers.getall("X-Request-Id")) == 1
    assert "Server" not in answer.headers
    assert "aiohttp" not in str(answer.headers).lower()
    assert [name for name in answer.headers if name.lower().startswith("access-control")] == []
    assert answer.headers.getall("Cache-Control") == [kept["Cache-Control"]]
    assert answer.headers.getall("Vary", []) == ([kept["Vary"]] if "Vary" in kept else [])
    if status >= 400:
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert not answer.body or json.loads(answer.body)["status"] == status


def kept_by_clients(path: str) -> dict[str, str]:
    """Return the headers by which a client's cache keeps an answer; those with coordinates come in two media types."""
    return KEPT_BY_CLIENTS | ({"Vary": f"{KEPT_BY_CLIENTS['Vary']}, Accept"} if "listings" in path else {})


def further(path: str, query: str) -> str:
    """Return a path with one more parameter."""
    return f"{path}{'&' if '?' in path else '?'}{query}"


def test_every_operation_is_covered() -> None:
    assert {*OPERATION_PATHS} == {operation.path for operation in OPERATIONS}


@pytest.mark.parametrize("path", PATHS)
async def test_answers_of_operations(port: int, key: dict[str, str], path: str) -> None:
    whole = await exchange_one(port, request(path, headers=key))
    check(whole, 200, kept_by_clients(path))
    tag = whole.headers["ETag"]
    assert whole.body
    check(await exchange_one(port, request(path, "HEAD", key)), 200, kept_by_clients(path))
    for method in ("GET", "HEAD"):
        held = await exchange_one(port, request(path, method, {**key, "If-None-Match": tag}))
        check(held, 304, kept_by_clients(path))
        assert held.headers["ETag"] == tag
        assert not {"Content-Type", "Content-Length", "Content-Encoding"} & {*held.headers}
    same = {name: value for name, value in whole.headers.items() if name not in {"Content-Type", "Content-Length"}}
    assert same | {"Date": "", "X-Request-Id": ""} == {**held.headers, "Date": "", "X-Request-Id": ""}


@pytest.mark.parametrize("path", PATHS)
async def test_an_answer_to_a_url_that_holds_the_key_is_never_kept(port: int, key: dict[str, str], path: str) -> None:
    kept = {**kept_by_clients(path), **NEVER_KEPT}
    for name in ("api-key", "api%2dkey"):
        url = further(path, f"{name}={key['x-api-key']}")
        check(await exchange_one(port, request(url)), 200, kept)
        check(await exchange_one(port, request(url, headers={"If-None-Match": "*"})), 304, kept)
        check(await exchange_one(port, request(further(url, "q=1"))), 400, NEVER_KEPT)


@pytest.mark.parametrize("path", PATHS)
async def test_refusals_of_operations(
    port: int, key: dict[str, str], path: str, stand_in: StandIn, internals: Internals
) -> None:
    check(await exchange_one(port, request(further(path, "q=1"), headers=key)), 400, NEVER_KEPT)
    check(await exchange_one(port, request(path)), 401, NEVER_KEPT)
    stand_in.replies = {resource.alias: Reply(status=503) for resource in RESOURCES}
    for method in ("GET", "HEAD"):
        check(await exchange_one(port, request(path, method, key)), 503, NEVER_KEPT)

    async def refuse(*_: object) -> None:
        raise Limited("Too often.", headers={"Retry-After": "1"})

    internals(authenticate=refuse)
    limited = await exchange_one(port, request(path, headers=key))
    check(limited, 429, NEVER_KEPT)
    assert limited.headers["Retry-After"] == "1"


@pytest.mark.parametrize("path", [*PATHS, *PROBES])
async def test_refusals_of_every_route(port: int, path: str) -> None:
    bare = path.partition("?")[0]
    check(await exchange_one(port, request(bare + "/more/more")), 404, NEVER_KEPT)
    check(await exchange_one(port, request(path, "DELETE")), 405, NEVER_KEPT)
    check(await exchange_one(port, request(further(path, "x=" + "y" * 9_000))), 414, NEVER_KEPT)
    check(await exchange_one(port, request(further(path, "x=" + "y" * 70_000))), 414, NEVER_KEPT)
    check(await exchange_one(port, request(path, headers={f"X-{n}": "y" for n in range(64)})), 431, NEVER_KEPT)
    check(await exchange_one(port, request(path, headers={"X": "y" * 9_000})), 431, NEVER_KEPT)
    check(await exchange_one(port, request(path, headers={"Content-Length": "1"}, body="x")), 400, NEVER_KEPT)
    check(await exchange_one(port, request(path).replace(b"Host", b"Ho\xffst")), 400, NEVER_KEPT)
    options = await exchange_one(port, request(path, "OPTIONS"))
    check(options, 204, NEVER_KEPT)
    assert options.headers["Allow"] == "GET, HEAD, OPTIONS"


@pytest.mark.parametrize("path", PROBES)
async def test_probes(port: int, stand_in: StandIn, path: str) -> None:
    check(await exchange_one(port, request(path)), 200, NEVER_KEPT)
    check(await exchange_one(port, request(path, "HEAD")), 200, NEVER_KEPT)
    assert stand_in.url


async def test_what_a_step_adds_is_on_a_refusal_by_a_later_step(
    port: int, key: dict[str, str], internals: Internals
) -> None:
    async def counting(asked: web.Request, *given: Any) -> ApiKey:
        asked[EXTRA_HEADERS]["X-Left"] = "7"
        return await authenticate(asked, *given)

    internals(authenticate=counting)
    for path in ("/v1/companies?q=1", "/v1//companies//?q=1", "/v1/companies"):
        assert (await exchange_one(port, request(path, headers=key))).headers.getall("X-Left") == ["7"]
