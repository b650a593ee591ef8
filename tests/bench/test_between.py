"""The tap between a client and Elasticsearch during a run changes nothing."""

import gzip
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from bench.tap import Heard, tapped
from embedded.node_options import free_ports
from tests.bench.servers import serving


async def _echo(request: web.Request) -> web.Response:
    """Answer what came, and how."""
    if request.path == "/packed":
        return web.Response(body=gzip.compress(b"packed"), headers={"Content-Encoding": "gzip"})
    seen = [request.method, request.raw_path, (await request.read()).decode(), request.headers.get("x-name", "")]
    return web.json_response(seen, status=404 if request.path == "/missing" else 200, headers={"x-answer": "yes"})


@pytest.fixture
async def upstream() -> AsyncIterator[str]:
    """A server that answers what came."""
    async with serving(_echo) as url:
        yield url


async def test_the_tap_passes_everything_on_and_writes_it_down(upstream: str) -> None:
    async with tapped(upstream, free_ports(1)[0]) as tap, aiohttp.ClientSession() as session:
        async with session.post(f"{tap.url}/t-listings/_search?a=%20b", data=b"\t{}", headers={"x-name": "n"}) as got:
            assert await got.json() == ["POST", "/t-listings/_search?a=%20b", "\t{}", "n"]
            assert (got.status, got.headers["x-answer"]) == (200, "yes")
        async with session.get(f"{tap.url}/missing") as missing:
            assert missing.status == 404
    assert tap.heard == [Heard("POST", "/t-listings/_search?a=%20b", b"\t{}"), Heard("GET", "/missing", b"")]
    assert tap.of("t-listings", 0) == tap.heard[:1]
    assert tap.of("t-listings", 1) == []


async def test_the_tap_passes_encoded_answers_on_as_they_are(upstream: str) -> None:
    async with tapped(upstream, free_ports(1)[0]) as tap, aiohttp.request("GET", f"{tap.url}/packed") as got:
        assert got.headers["Content-Encoding"] == "gzip"
        assert await got.read() == b"packed"
