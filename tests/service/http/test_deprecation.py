"""Declared deprecations are announced in responses, in the OpenAPI document and in the log."""

from __future__ import annotations

import datetime as dt
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from yarl import URL

from service.http.deprecation import Deprecation, deprecation_headers
from service.openapi.document import document
from service.parameters.types import Boolean
from service.resources import OPERATIONS
from service.resources.listings import ListingsParameters

if TYPE_CHECKING:
    from aiohttp.test_utils import TestClient

    from service.operation import Operation
    from tests.service.conftest import Open
    from tests.service.stand_in import StandIn

LISTINGS = "/v1/listings?platform_company_id=acme&updated_since=1&page_size=1"
FLAG = Deprecation(since=dt.date(2027, 3, 1), link="https://docs.example/flag")
AGENTS = Deprecation(since=dt.date(2027, 1, 1), sunset=dt.date(2028, 1, 1), link="https://docs.example/agents")
AGENTS_LINKS = (
    '<https://docs.example/agents>; rel="deprecation"; type="text/html", '
    '<https://docs.example/agents>; rel="sunset"; type="text/html"'
)
FLAG_LINK = '<https://docs.example/flag>; rel="deprecation"; type="text/html"'


class _Parameters(ListingsParameters):
    """Those of the index, of which one will go away."""

    coming_soon = Boolean("A flag.").deprecated(FLAG)


def _declared(operation: Operation) -> Operation:
    if operation.path == "/agents":
        return replace(operation, deprecation=AGENTS)
    return replace(operation, schema=_Parameters()) if operation.path == "/listings" else operation


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Declare an operation deprecated, and a parameter of another."""
    operations = tuple(map(_declared, OPERATIONS))
    monkeypatch.setattr("service.app.OPERATIONS", operations)
    monkeypatch.setattr("service.openapi.document.OPERATIONS", operations)


@pytest.fixture
async def api(open_api: Open) -> TestClient[Any, Any]:
    """A client of the service in which something is deprecated."""
    return await open_api()


@pytest.fixture
def key(stand_in: StandIn) -> dict[str, str]:
    """The header with a key for the company, which has two listings."""
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")
    for name in ("L1", "L2"):
        stand_in.add("listings", name, {"PlatformListingId": name})
    return {"x-api-key": stand_in.grant()}


def _announced(response: Any) -> tuple[str | None, str | None]:
    return response.headers.get("Deprecation"), response.headers.get("Sunset")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_every_answer_of_a_deprecated_operation_says_so(
    api: TestClient[Any, Any], key: dict[str, str], method: str
) -> None:
    for headers_sent, query, status in ((key, "", 200), (key, "?q=1", 400), ({}, "", 401)):
        response = await api.request(method, "/v1/agents" + query, headers=headers_sent)
        assert response.status == status
        # 2027-01-01T00:00:00Z, and a year later.
        assert _announced(response) == ("@1798761600", "Sat, 01 Jan 2028 00:00:00 GMT")
        assert response.headers["Link"].endswith(AGENTS_LINKS)


async def test_an_answer_that_the_client_has_says_so_too(api: TestClient[Any, Any], key: dict[str, str]) -> None:
    tag = (await api.get("/v1/agents", headers=key)).headers["ETag"]
    again = await api.get("/v1/agents", headers={**key, "If-None-Match": tag})
    assert again.status == 304
    assert _announced(again) == ("@1798761600", "Sat, 01 Jan 2028 00:00:00 GMT")


async def test_a_deprecated_parameter_is_announced_where_it_is_sent(
    api: TestClient[Any, Any], key: dict[str, str]
) -> None:
    used = await api.get(f"{LISTINGS}&coming_soon=false", headers=key)
    assert (used.status, *_announced(used)) == (200, "@1803859200", None)
    # What leads through the feed stays, and comes first.
    assert URL(used.links["next"]["url"]).query["last_platform_listing_id"] == "L1"
    assert used.headers["Link"].endswith(f'rel="next", {FLAG_LINK}')
    unused = await api.get(LISTINGS, headers=key)
    assert (unused.status, *_announced(unused)) == (200, None, None)
    assert "deprecation" not in unused.headers["Link"]


async def test_nothing_else_is_announced(api: TestClient[Any, Any], key: dict[str, str]) -> None:
    response = await api.get("/v1/companies/acme", headers=key)
    assert (response.status, *_announced(response), response.headers.get("Link")) == (200, None, None, None)


async def test_the_log_names_each_key_once(
    api: TestClient[Any, Any], stand_in: StandIn, key: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    keys = [key, {"x-api-key": stand_in.grant()}]
    with caplog.at_level(logging.WARNING, "service"):
        for sent in keys * 2:
            assert (await api.get(f"{LISTINGS}&coming_soon=true", headers=sent)).status == 200
            assert (await api.get(LISTINGS, headers=sent)).status == 200
        assert (await api.get("/v1/agents", headers={})).status == 401
    sentence = "Deprecated since 2027-03-01: https://docs.example/flag."
    expected = [f"Key {sent['x-api-key'].split('_')[1]} uses /listings?coming_soon. {sentence}" for sent in keys]
    assert [text for text in caplog.messages if text.startswith("Key ")] == expected


def test_the_document_says_so() -> None:
    made = document()
    assert list(OpenAPIV31SpecValidator(made).iter_errors()) == []
    gets = {path: item["get"] for path, item in made["paths"].items()}
    assert [path for path, described in gets.items() if described.get("deprecated")] == ["/agents"]
    assert gets["/agents"]["description"].startswith(
        "Deprecated since 2027-01-01, may be gone from 2028-01-01 on: https://docs.example/agents.\n\n"
    )
    parameters = [parameter for described in gets.values() for parameter in described["parameters"]]
    [deprecated] = [parameter for parameter in parameters if parameter.get("deprecated")]
    assert (deprecated["name"], deprecated["description"]) == (
        "coming_soon",
        "A flag. Deprecated since 2027-03-01: https://docs.example/flag.",
    )


def test_several_deprecations_give_the_earliest_days_and_all_links() -> None:
    later = Deprecation(since=dt.date(2027, 6, 1), sunset=dt.date(2029, 1, 1), link="https://docs.example/later")
    headers = deprecation_headers((FLAG, later, AGENTS, FLAG))
    assert (headers["Deprecation"], headers["Sunset"]) == ("@1798761600", "Sat, 01 Jan 2028 00:00:00 GMT")
    assert headers["Link"].count("rel=") == 5
    assert headers["Link"].startswith(FLAG_LINK)


def test_nothing_is_gone_before_it_is_deprecated() -> None:
    with pytest.raises(ValueError, match="the sunset 2026-01-01 is before the deprecation of 2027-01-01"):
        replace(AGENTS, sunset=dt.date(2026, 1, 1))


def test_today_nothing_is_deprecated() -> None:
    assert [operation.path for operation in OPERATIONS if operation.deprecations] == []
