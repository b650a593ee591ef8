"""Paths, methods, slashes, long URLs, and the headers of every response."""

import asyncio
from http import HTTPStatus
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient
from pytest_aiohttp.plugin import AiohttpClient
from yarl import URL

from service.http.problems import problem_middleware
from service.http.requests import RequestAdapter
from service.resources import OPERATIONS
from tests.service.conftest import Open
from tests.service.stand_in import StandIn

MEMBERS = {"type", "title", "status", "detail", "instance", "code", "messages", "errors", "request_id"}
PATHS = sorted({operation.path.replace("{", "").replace("}", "") for operation in OPERATIONS})
METHODS = "GET, HEAD, OPTIONS"


@pytest.fixture
def key(stand_in: StandIn) -> dict[str, str]:
    """The header with a key for all companies, of which there is one with one listing."""
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")
    stand_in.add("listings", "L1", {"PlatformListingId": "L1"})
    return {"x-api-key": stand_in.grant()}


def as_sent(path: str) -> URL:
    """Return a path that the test's client does not normalize."""
    return URL(path, encoded=True)


async def problem(response: Any, status: int, code: str) -> dict[str, Any]:
    """Return the problem document of a response, which must be one."""
    assert (response.status, response.content_type) == (status, "application/problem+json")
    document: dict[str, Any] = await response.json()
    assert document.keys() == MEMBERS
    assert (document["status"], document["code"]) == (status, code)
    assert document["type"].endswith(f"#{code}")
    assert document["messages"] != []
    assert document["request_id"] == response.headers["X-Request-Id"]
    assert response.headers["Cache-Control"] == "no-store"
    return document


@pytest.mark.parametrize(
    "path", ["/v2", "/v2/listings", "/v1/listing", "/v1/listings/L1/more", "/v1/%ff", "/V1/agents"]
)
async def test_an_unknown_path_is_a_problem(api: TestClient[Any, Any], path: str) -> None:
    document = await problem(await api.get(as_sent(path)), 404, "not-found")
    assert document["instance"] == path
    assert document["detail"] == "There is nothing at this path."


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"])
@pytest.mark.parametrize("path", ["/v1/listings", "/v1/agents/a1", "/v1/teams/", "/livez"])
async def test_another_method_is_refused_with_those_that_work(
    api: TestClient[Any, Any], path: str, method: str
) -> None:
    response = await api.request(method, path)
    assert METHODS in (await problem(response, 405, "method-not-allowed"))["detail"]
    assert response.headers["Allow"] == METHODS


@pytest.mark.parametrize("path", [f"/v1{path}" for path in PATHS] + ["/livez", "/readyz", "/v1/listings/"])
async def test_options_names_the_methods_without_a_key(api: TestClient[Any, Any], path: str) -> None:
    response = await api.options(path)
    assert (response.status, response.headers["Allow"]) == (204, METHODS)
    assert await response.read() == b""


@pytest.mark.parametrize("path", ["/v1/companies/", "/v1//companies", "//v1/companies", "/v1///companies///"])
async def test_extra_slashes_are_served_as_if_absent(api: TestClient[Any, Any], key: dict[str, str], path: str) -> None:
    status, body = await raw_get(api, path, key["x-api-key"])
    assert (status, body) == (200, b'[{"platform_company_id":"acme"}]')


async def raw_get(api: TestClient[Any, Any], path: str, key: str) -> tuple[int, bytes]:
    """Send a raw request line: a client would take `//v1` for a host."""
    reader, writer = await asyncio.open_connection(api.host, api.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nx-api-key: {key}\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return int(head.split()[1]), body


async def test_extra_slashes_do_not_touch_identifier_and_parameters(
    api: TestClient[Any, Any], stand_in: StandIn, key: dict[str, str]
) -> None:
    stand_in.add("listings", "a/b", {"PlatformListingId": "a/b"})
    path = as_sent("/v1//listings/a%2Fb//?platform_company_id=acme&platform_listing_id=a/b")
    assert (await api.get(path, headers=key)).status == 200
    _, body = stand_in.asked[-1]
    assert body == {"docs": [{"_id": "a/b"}]}


async def test_a_slash_too_many_does_not_get_round_the_key(api: TestClient[Any, Any]) -> None:
    await problem(await api.get("/v1//companies/"), 401, "unauthorized")


async def test_a_url_of_eight_kibibytes_is_taken(api: TestClient[Any, Any]) -> None:
    start = "/v1/listings?platform_company_id=acme&api-key="
    response = await api.get(start + "x" * (8192 - len(start)))
    await problem(response, 401, "unauthorized")


@pytest.mark.parametrize("path", ["/v1/listings?platform_company_id=", "/v1/listings/", "/"])
async def test_a_longer_url_is_refused(api: TestClient[Any, Any], key: dict[str, str], path: str) -> None:
    response = await api.get(path + "x" * (8193 - len(path)), headers=key)
    assert "8193 bytes" in (await problem(response, 414, "url-too-long"))["detail"]
    assert (await api.get(path + "x" * 9216, headers=key)).status == 414


async def test_all_faults_of_the_parameters_are_reported_at_once(
    api: TestClient[Any, Any], key: dict[str, str]
) -> None:
    response = await api.get("/v1/listings?page_size=0&q=1&updated_since=x&updated_since=y", headers=key)
    document = await problem(response, 400, "invalid-parameter")
    assert {fault["parameter"] for fault in document["errors"]} == {
        "platform_company_id",
        "page_size",
        "q",
        "updated_since",
    }
    assert document["messages"] == [f"{fault['parameter']}: {fault['message']}" for fault in document["errors"]]


async def test_the_instance_is_the_path_without_the_query(api: TestClient[Any, Any], key: dict[str, str]) -> None:
    response = await api.get("/v1/listings", params={"q": "1", "api-key": key["x-api-key"]})
    assert (await problem(response, 400, "invalid-parameter"))["instance"] == "/v1/listings"
    assert key["x-api-key"] not in await response.text()


@pytest.mark.parametrize(
    ("identifier", "shown"),
    [
        ("a b", "a%20b"),
        ("{platform_listing_id}", "%7Bplatform_listing_id%7D"),
        ("\u00fc", "%C3%BC"),
        ("100%", "100%25"),
        ("a:b@c", "a:b@c"),
    ],
)
async def test_the_instance_is_a_uri_reference(
    api: TestClient[Any, Any], key: dict[str, str], identifier: str, shown: str
) -> None:
    response = await api.get(URL("/v1/listings") / identifier, headers=key)
    assert (await problem(response, 404, "not-found"))["instance"] == f"/v1/listings/{shown}"


async def test_a_long_instance_ends_before_an_escape(api: TestClient[Any, Any]) -> None:
    for more in range(3):
        response = await api.get(as_sent(f"/v1/{'x' * more}{'%20' * 700}"))
        instance = (await problem(response, 404, "not-found"))["instance"]
        assert instance.replace("%20", "").strip("x") == "/v1/"
        assert 2045 < len(instance) <= 2048


async def test_unknown_parameters_may_be_answered_with_a_warning(open_api: Open, key: dict[str, str]) -> None:
    api = await open_api(tolerate_unknown=True)
    path = "/v1/listings?platform_company_id=acme&q=1&market=x"
    response = await api.get(path, headers=key)
    assert (response.status, response.headers["Warning"]) == (200, '299 - "Unknown parameters were ignored: 2"')
    assert "Warning" not in (await api.get("/v1/companies", headers=key)).headers


async def test_links_lead_on_without_the_key(api: TestClient[Any, Any], stand_in: StandIn, key: dict[str, str]) -> None:
    stand_in.add("listings", "L2", {"PlatformListingId": "L2"})
    sent = {"platform_company_id": "acme", "page_size": "1", "api-key": key["x-api-key"]}
    response = await api.get("/v1/listings", params=sent)
    following = "</v1/listings?platform_company_id=acme&page_size=1&last_platform_listing_id=L1>"
    assert response.headers["Link"] == f'{following}; rel="next"'
    assert key["x-api-key"] not in str(response.headers)


async def test_every_answer_has_a_request_id_of_its_own(api: TestClient[Any, Any], key: dict[str, str]) -> None:
    responses = [
        await api.get(path, headers=key) for path in ("/v1/companies", "/v1/companies", "/v1/listings", "/livez")
    ]
    assert len({response.headers["X-Request-Id"] for response in responses}) == 4


async def test_a_refusal_of_the_framework_is_a_problem_too(aiohttp_client: AiohttpClient) -> None:
    async def refuse(request: web.Request) -> web.Response:
        raise web.HTTPRequestEntityTooLarge(max_size=1, actual_size=len(request.path))

    app = web.Application(middlewares=[problem_middleware((), RequestAdapter())])
    app.router.add_get("/", refuse)
    client = await aiohttp_client(app)
    # Python 3.13 names it as RFC 9110 does.
    assert (await problem(await client.get("/"), 413, "refused"))["title"] == HTTPStatus(413).phrase
