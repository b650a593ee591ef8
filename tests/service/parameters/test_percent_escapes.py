"""Invalid percent escapes: reported by parameter, together with all other faults."""

import json
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given, settings
from hypothesis import strategies as st

from service.parameters import url_faults
from tests.service.raw_http import exchange_one, request, serve_raw
from tests.service.stand_in import StandIn

ESCAPE, TEXT = "percent escape", "control characters"


@pytest.fixture
async def port(stand_in: StandIn) -> AsyncIterator[int]:
    """The port of a service with one company and one listing."""
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")
    stand_in.add("listings", "L1", {"PlatformListingId": "L1"})
    async with serve_raw(stand_in.url) as port:
        yield port


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/listings/a%00b", {"platform_listing_id": TEXT}),
        ("/v1/listings/a%0d%0ab", {"platform_listing_id": TEXT}),
        ("/v1/listings/a%7f", {"platform_listing_id": TEXT}),
        ("/v1/listings/a%c2%85b", {"platform_listing_id": TEXT}),
        (f"/v1/listings/{'x' * 129}", {"platform_listing_id": TEXT}),
        ("/v1/listings/a%ff", {"platform_listing_id": ESCAPE}),
        ("/v1/listings/a%ed%a0%80", {"platform_listing_id": ESCAPE}),
        ("/v1/listings/a%c0%af", {"platform_listing_id": ESCAPE}),
        ("/v1/agents/a%zz", {"guid": ESCAPE}),
        ("/v1/offices/a%", {"platform_office_id": ESCAPE}),
        ("/v1/teams//a%2", {"platform_team_id": ESCAPE}),
        ("/v1/listings?platform_company_id=a%00", {"platform_company_id": TEXT}),
        ("/v1/listings?platform_company_id=a%ff", {"platform_company_id": ESCAPE}),
        ("/v1/listings?platform_company_id=acme&last_platform_listing_id=%", {"last_platform_listing_id": ESCAPE}),
        ("/v1/listings?platform_company_id=acme&p%ff=1", {"p\ufffd": ESCAPE}),
        ("/v1/listings?page_size=0&platform_company_id=a%zz", {"platform_company_id": ESCAPE, "page_size": "whole"}),
    ],
)
async def test_invalid_text_is_refused_by_parameter(
    port: int, stand_in: StandIn, path: str, said: dict[str, str]
) -> None:
    answer = await exchange_one(port, request(path, headers={"x-api-key": stand_in.grant()}))
    problem = json.loads(answer.body)
    assert (answer.status, problem["code"]) == (400, "invalid-parameter")
    faults = [(fault["parameter"], fault["message"]) for fault in problem["errors"]]
    assert {name for name, _ in faults} == said.keys()
    for name, text in said.items():
        assert any(text in message for parameter, message in faults if parameter == name)


@pytest.mark.parametrize("identifier", ["L1", "x" * 128, "a b", "a/b", "日本", "a%b", "'", "a+b", "🏠" * 128])
async def test_an_identifier_with_other_characters_is_searched(port: int, stand_in: StandIn, identifier: str) -> None:
    path = f"/v1/listings/{quote(identifier, safe='')}"
    answer = await exchange_one(port, request(path, headers={"x-api-key": stand_in.grant()}))
    assert answer.status == (200 if identifier == "L1" else 404)


async def test_an_unknown_path_stays_one(port: int) -> None:
    assert (await exchange_one(port, request("/v1/%ff%zz"))).status == 404


@settings(max_examples=30)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])), st.text(alphabet="&=%+ aé\x00;"))
def test_whatever_is_quoted_is_whole(name: str, value: str) -> None:
    assert [*url_faults(make_mocked_request("GET", f"/?{quote(name)}={quote(value)}"))] == []


@settings(max_examples=50)
@given(st.binary(max_size=8))
def test_bytes_are_text_exactly_where_python_says_so(raw: bytes) -> None:
    escaped = "".join(f"%{byte:02x}" for byte in raw)
    try:
        raw.decode()
        is_text = True
    except UnicodeDecodeError:
        is_text = False
    assert ([*url_faults(make_mocked_request("GET", f"/?a={escaped}"))] == []) is is_text
