"""What a client unpacks is what a client that unpacks nothing gets, for every kind of answer from a real engine."""

import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest
import zstandard

from tests.contract.world import World, source_identifiers

Ask = Callable[[str, str], Any]

FEED = "/v1/listings?platform_company_id=summit-crest&market_status=all&updated_since=1"
PATHS = [
    FEED,
    f"{FEED}&page_size=1000",
    f"{FEED}&underscore_response=true",
    f"{FEED}&timestamps_only=true",
    "/v1/sold_listings?updated_since=1&page_size=30",
    "/v1/agents?updated_since=1",
    "/v1/offices",
    "/v1/teams",
    "/v1/companies",
]
UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda body: zlib.decompress(body, wbits=31),
    "zstd": zstandard.ZstdDecompressor().decompress,
}


@pytest.fixture
async def ask(world: World) -> AsyncIterator[Ask]:
    """Ask with a coding; the answer's headers and its bytes as they came."""

    async def asked(path: str, coding: str) -> tuple[Any, bytes]:
        headers = {"x-api-key": world.keys["all"], "Accept-Encoding": coding}
        async with session.get(world.http.make_url(path), headers=headers) as response:
            assert response.status == 200
            return response.headers, await response.read()

    async with aiohttp.ClientSession(auto_decompress=False) as session:
        yield asked


@pytest.mark.parametrize("coding", UNPACK)
@pytest.mark.parametrize("path", PATHS)
async def test_every_answer_unpacks_to_the_plain_one(ask: Ask, path: str, coding: str) -> None:
    plain, whole = await ask(path, "identity")
    headers, body = await ask(path, coding)
    assert headers["Content-Encoding"] == coding
    assert len(body) < len(whole)
    assert UNPACK[coding](body) == whole
    # But for the coding and what it changes, the headers are the same: the cursor and the page numbers too.
    assert {*headers} - {*plain} == {"Content-Encoding"}
    # A strong tag is of the very bytes.
    assert headers["ETag"] != plain["ETag"]
    varying = {"Content-Length", "Date", "X-Request-ID", "Content-Encoding", "Etag"}
    assert [name for name in {*headers} - varying if headers[name] != plain[name]] == []


@pytest.mark.parametrize("coding", UNPACK)
async def test_a_show_unpacks_to_the_plain_one(ask: Ask, world: World, coding: str) -> None:
    path = f"/v1/listings/{source_identifiers(world.of('listings'))[0]}"
    _, whole = await ask(path, "identity")
    headers, body = await ask(path, coding)
    assert (headers["Content-Encoding"], UNPACK[coding](body)) == (coding, whole)
