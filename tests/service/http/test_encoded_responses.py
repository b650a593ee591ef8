"""Compressed responses over real HTTP: their bytes and headers, for a client that does not decompress them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestClient

from service.http.requests import ContentCoding
from service.http.responses import MIN_COMPRESSED_BYTES
from tests.service.http.test_content_coding import PACKED, unpacked
from tests.service.stand_in import StandIn

Api = TestClient[Any, Any]

VARY = "x-api-key, Accept-Encoding"
LARGE = "/v1/listings?platform_company_id=acme"
LARGE_PATHS = [LARGE, f"{LARGE}&underscore_response=true", "/v1/listings/L1", "/v1/sold_listings?updated_since=1"]
SMALL = "/v1/companies"


class Plain:
    """A client that adds no headers and returns bodies as received."""

    def __init__(self, session: aiohttp.ClientSession, api: Api, key: str) -> None:
        self._session, self._api, self._key = session, api, key

    async def ask(self, path: str, *accept: str, method: str = "GET") -> tuple[aiohttp.ClientResponse, bytes]:
        """Return an answer and its bytes; each value of `accept` is a header line of its own."""
        headers = [("x-api-key", self._key), *(("Accept-Encoding", line) for line in accept)]
        async with self._session.request(method, self._api.make_url(path), headers=headers) as response:
            return response, await response.read()


@pytest.fixture
async def plain(api: Api, stand_in: StandIn) -> AsyncIterator[Plain]:
    """A client with a key for the one company, whose listings are one large and one small."""
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")
    for index in ("listings", "sold_listings"):
        stand_in.add(index, "L1", {"PlatformListingId": "L1", "PublicRemarks": "A quiet street. " * 200})
    skipped = {"Accept-Encoding", "Accept", "User-Agent"}
    async with aiohttp.ClientSession(auto_decompress=False, skip_auto_headers=skipped) as session:
        yield Plain(session, api, stand_in.grant())


@pytest.mark.parametrize("path", LARGE_PATHS)
@pytest.mark.parametrize("coding", PACKED)
async def test_a_compressed_response_equals_the_plain_one(plain: Plain, path: str, coding: ContentCoding) -> None:
    (_, whole), (response, body) = await plain.ask(path), await plain.ask(path, coding.value)
    assert unpacked(body, coding) == whole
    assert len(body) < len(whole)
    assert response.status == 200
    assert response.headers["Content-Encoding"] == coding.value
    assert response.headers["Content-Type"] == "application/json"
    assert int(response.headers["Content-Length"]) == len(body)
    assert "Transfer-Encoding" not in response.headers


@pytest.mark.parametrize("accept", [(), ("",), ("identity",), ("br",), ("identity;q=0",), ("gzip;q=0",), ("gzip;q=9",)])
async def test_an_answer_stays_plain_where_no_coding_of_ours_is_taken(plain: Plain, accept: tuple[str, ...]) -> None:
    response, body = await plain.ask(LARGE, *accept)
    assert (response.status, body.startswith(b'{"FinalPage":')) == (200, True)
    assert "Content-Encoding" not in response.headers
    assert int(response.headers["Content-Length"]) == len(body)


async def test_several_lines_are_one_header(plain: Plain) -> None:
    response, _ = await plain.ask(LARGE, "gzip;q=0.5, br", "zstd")
    assert response.headers["Content-Encoding"] == "zstd"


@pytest.mark.parametrize("path", [*LARGE_PATHS, SMALL])
@pytest.mark.parametrize("accept", ["gzip", "zstd", "identity"])
async def test_head_has_the_headers_of_get_in_every_coding(plain: Plain, path: str, accept: str) -> None:
    (got, sent), (head, nothing) = await plain.ask(path, accept), await plain.ask(path, accept, method="HEAD")
    get_headers, head_headers = got.headers.copy(), head.headers.copy()
    for varying in ("Date", "X-Request-Id"):
        del get_headers[varying], head_headers[varying]
    assert get_headers == head_headers
    assert (int(get_headers["Content-Length"]), nothing) == (len(sent), b"")


@pytest.mark.parametrize("path", [*LARGE_PATHS, SMALL])
@pytest.mark.parametrize("accept", [(), ("gzip",), ("zstd",), ("identity",)])
async def test_every_answer_says_that_it_varies(plain: Plain, path: str, accept: tuple[str, ...]) -> None:
    response, _ = await plain.ask(path, *accept)
    assert response.headers.getall("Vary") == [VARY if path == SMALL else f"{VARY}, Accept"]


@pytest.mark.parametrize("coding", PACKED)
@pytest.mark.parametrize(("length", "is_packed"), [(MIN_COMPRESSED_BYTES - 1, False), (MIN_COMPRESSED_BYTES, True)])
async def test_short_answers_stay_plain(
    plain: Plain, stand_in: StandIn, coding: ContentCoding, length: int, is_packed: bool
) -> None:
    record = {"platform_company_id": "acme", "name": ""}
    stand_in.hits["companies"].clear()
    _, empty = await plain.ask(SMALL)
    stand_in.add(
        "companies", "acme", record | {"name": "x" * (length - len('[{"platform_company_id":"acme","name":""}]'))}
    )
    response, body = await plain.ask(SMALL, coding.value)
    assert empty == b"[]"
    assert ("Content-Encoding" in response.headers) is is_packed
    assert len(unpacked(body, coding if is_packed else ContentCoding.IDENTITY)) == length


@pytest.mark.parametrize(
    ("path", "status"), [(f"/v1/listings?{'&'.join(f'q{n}=1' for n in range(40))}", 400), ("/v1/x", 404)]
)
@pytest.mark.parametrize("coding", PACKED)
async def test_problems_are_never_compressed(plain: Plain, path: str, status: int, coding: ContentCoding) -> None:
    response, body = await plain.ask(path, coding.value)
    assert (response.status, response.content_type) == (status, "application/problem+json")
    assert (len(body) > MIN_COMPRESSED_BYTES) is (status == 400)
    assert "Content-Encoding" not in response.headers
    # Not cacheable, so it needs no `Vary`.
    assert response.headers["Cache-Control"] == "no-store"


async def test_answers_of_different_codings_do_not_mix(plain: Plain) -> None:
    accepts = ["gzip", "zstd", "identity", "zstd;q=0.1, gzip"] * 8
    answers = await asyncio.gather(*(plain.ask(LARGE, accept) for accept in accepts))
    wanted = [ContentCoding.GZIP, ContentCoding.ZSTD, ContentCoding.IDENTITY, ContentCoding.GZIP] * 8
    bodies = {unpacked(body, coding) for (_, body), coding in zip(answers, wanted, strict=True)}
    assert [answer.headers.get("Content-Encoding", "identity") for answer, _ in answers] == wanted
    assert len(bodies) == 1


@pytest.mark.parametrize("coding", PACKED)
async def test_a_change_shows_at_once_in_a_compressed_response(
    plain: Plain, stand_in: StandIn, coding: ContentCoding
) -> None:
    """Also if the response is large enough to be cached."""
    for remark in ("A quiet street. ", "A quiet stream. "):
        stand_in.hits["listings"].clear()
        stand_in.add("listings", "L1", {"PlatformListingId": "L1", "PublicRemarks": remark * 10_000})
        for _ in range(2):
            _, body = await plain.ask(LARGE, coding.value)
            assert unpacked(body, coding).count(remark.encode()) == 10_000
