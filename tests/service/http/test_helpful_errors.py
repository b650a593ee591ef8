"""Errors of common mistakes say what to do, and repeat nothing of the request; `/` says where everything is."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from service.resources import OPERATIONS
from tests.service.raw_http import exchange_one, serve_raw
from tests.service.stand_in import StandIn

CANARY = "bk_0000000000_Canary"


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """The port of a running service without an Elasticsearch."""
    async with serve_raw("http://127.0.0.1:9") as port:
        yield port


def raw(target: str, *headers: str, version: str = "HTTP/1.1") -> bytes:
    """Return a request as a client sends it that escapes nothing."""
    return "\r\n".join([f"GET {target} {version}", *headers, "Connection: close", "", ""]).encode()


MISTAKES = {
    "a raw space in the query": (raw(f"/v1/listings?api-key={CANARY}&city=San Jose", "Host: x"), "as %20"),
    "a raw space in the path": (raw(f"/v1/agents/{CANARY} x", "Host: x"), "as %20"),
    "raw UTF-8 in the query": (raw(f"/v1/listings?api-key={CANARY}&city=Zürich", "Host: x"), "percent-encode"),
    "raw UTF-8 in the path": (raw(f"/v1/agents/{CANARY}ü", "Host: x"), "percent-encode"),
    "a fragment": (raw(f"/livez?api-key={CANARY}#top", "Host: x"), "as %23"),
    "no Host": (raw(f"/livez?api-key={CANARY}"), "Send a Host header"),
    "two Hosts": (raw("/livez", f"Host: {CANARY}", "Host: y"), "Send one Host header"),
    "HTTP/2 in text": (raw(f"/livez?api-key={CANARY}", "Host: x", version="HTTP/2.0"), "Send HTTP/1.1"),
}


@pytest.mark.parametrize(("sent", "advice"), MISTAKES.values(), ids=MISTAKES)
async def test_a_request_that_is_not_http_says_what_to_do(port: int, sent: bytes, advice: str) -> None:
    answer = await exchange_one(port, sent)
    problem = json.loads(answer.body)
    assert (answer.status, problem["code"]) == (400, "malformed-request")
    assert advice in problem["detail"]
    assert problem["messages"] == [problem["detail"]]
    assert CANARY not in answer.body.decode()


@pytest.mark.parametrize("expected", [CANARY, "100-continue, x", "", "100-continue\r\nExpect: 100-continue"])
async def test_an_expectation_that_cannot_be_met_is_refused_with_the_one_that_can(port: int, expected: str) -> None:
    answer = await exchange_one(port, raw("/livez", "Host: x", f"Expect: {expected}"))
    problem = json.loads(answer.body)
    assert (answer.status, problem["status"], problem["code"]) == (417, 417, "refused")
    assert "100-continue" in problem["detail"]
    assert CANARY not in answer.body.decode()


async def test_the_expectation_to_continue_is_accepted_in_any_case(port: int) -> None:
    assert (await exchange_one(port, raw("/livez", "Host: x", "Expect: 100-Continue"))).status == 200


@pytest.mark.parametrize(
    ("path", "name", "hint"),
    [
        ("/v1/agents", "company_id", "Did you mean platform_company_id?"),
        ("/v1/listings?platform_company_id=acme", "company_id", "Did you mean platform_company_id?"),
        ("/v1/agents", "office_id", "Did you mean platform_office_id?"),
        ("/v1/listings?platform_company_id=acme", "agent_id", "Did you mean platform_agent_id?"),
        ("/v1/agents", "_", "cache buster"),
        ("/v1/companies/acme", "_", "cache buster"),
    ],
)
async def test_a_name_of_other_apis_is_refused_with_the_right_one(
    api: TestClient[Any, Any], stand_in: StandIn, path: str, name: str, hint: str
) -> None:
    sent = f"{path}{'&' if '?' in path else '?'}{name}=1732380000"
    response = await api.get(sent, headers={"x-api-key": stand_in.grant()})
    (fault,) = (await response.json())["errors"]
    assert (response.status, fault["parameter"]) == (400, name)
    assert hint in fault["message"]


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/"])
async def test_the_roots_name_the_documentation_and_every_collection(api: TestClient[Any, Any], path: str) -> None:
    response = await api.get(path)
    index = await response.json()
    assert (response.status, index["documentation"], index["openapi"]) == (200, "/docs", "/v1/openapi.json")
    assert {f"/v1{operation.path}" for operation in OPERATIONS if "{" not in operation.path} < {*index["resources"]}
    for named in index["resources"]:
        assert (await api.get(named)).status == 401
    assert (await api.get(index["openapi"])).status == 200
