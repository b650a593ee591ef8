"""Bodies by concatenation, and links without the key."""

from collections.abc import Mapping

import pytest
from aiohttp.test_utils import make_mocked_request
from yarl import URL

from service.http.requests import collapse_slashes
from service.http.responses import json_array, json_response, link_header


def link(path: str, relations: Mapping[str, Mapping[str, object]]) -> str:
    """Return the Link header of a request."""
    return link_header(make_mocked_request("GET", path).rel_url, relations)["Link"]


@pytest.mark.parametrize(
    ("records", "body"), [([], b"[]"), ([b"{}"], b"[{}]"), ([b'{"a":1}', b'{"b":2}'], b'[{"a":1},{"b":2}]')]
)
def test_records_are_joined_into_an_array(records: list[bytes], body: bytes) -> None:
    assert b"".join(json_array(records)) == body


def test_without_relations_there_is_no_header() -> None:
    assert link_header(URL("/v1/listings"), {}) == {}


def test_a_link_keeps_the_parameters_and_changes_its_own() -> None:
    sent = "/v1/agents?page_number=2&page_size=7"
    relations = {"first": {"page_number": 1}, "next": {"page_number": 3}}
    first, following = "</v1/agents?page_number=1&page_size=7>", "</v1/agents?page_number=3&page_size=7>"
    assert link(sent, relations) == f'{first}; rel="first", {following}; rel="next"'


def test_a_link_never_carries_the_key() -> None:
    header = link("/v1/agents?api-key=bk_secret&page_size=7", {"next": {"page_number": 2}})
    assert header == '</v1/agents?page_size=7&page_number=2>; rel="next"'


@pytest.mark.parametrize("identifier", ["a&b", "a=b", "a+b", "a b", "ü>", '"; rel="x', "a#b", "a%2Fb", "a,b", "日本"])
def test_a_cursor_of_any_characters_comes_back_as_it_was(identifier: str) -> None:
    header = link("/v1/listings?page_size=7", {"next": {"last_platform_listing_id": identifier}})
    assert header.endswith('>; rel="next"')
    target = header.removeprefix("<").removesuffix('>; rel="next"')
    assert not {*'<>" \n'} & {*target}
    sent_back = make_mocked_request("GET", target).query
    assert dict(sent_back) == {"page_size": "7", "last_platform_listing_id": identifier}


def test_answers_are_kept_from_shared_caches() -> None:
    response = json_response([b"{}"], {"X-Total-Count": "1"})
    assert response.content_type == "application/json"
    assert response.headers["Cache-Control"] == "private, no-cache"
    assert response.headers["Vary"] == "x-api-key, Accept-Encoding"
    assert response.headers["X-Total-Count"] == "1"


@pytest.mark.parametrize(
    ("path", "tidied"),
    [
        ("/v1/listings", "/v1/listings"),
        ("/v1/listings/", "/v1/listings"),
        ("//v1///listings//", "/v1/listings"),
        ("/", "/"),
        ("//", "/"),
        ("/v1/listings/a%2F%2Fb/", "/v1/listings/a%2F%2Fb"),
    ],
)
def test_extra_slashes_are_left_out_but_encoded_ones_stay(path: str, tidied: str) -> None:
    assert collapse_slashes(path) == tidied
