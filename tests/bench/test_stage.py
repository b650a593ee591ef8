"""Loaded data is used again, is one segment, and can be removed; the tap in front of Elasticsearch changes nothing."""

import gzip
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from elasticsearch import AsyncElasticsearch

from bench.measure import Progress
from bench.questions import Heard
from bench.stage import companies, identifiers, load, tapped, unload
from cluster.connection import ConnectionSettings
from embedded.node_options import free_ports
from mappings import LISTING
from tests.bench.servers import serving

LISTINGS = 60


async def _generations(client: AsyncElasticsearch, prefix: str) -> dict[str, str]:
    """Return the UUIDs of all indices of listings by name."""
    found = await client.indices.get_settings(index=f"{prefix}listings-*")
    return {name: settings["settings"]["index"]["uuid"] for name, settings in found.items()}


async def test_data_is_loaded_once_used_again_and_removed(
    client: AsyncElasticsearch, connection: ConnectionSettings, prefix: str
) -> None:
    alias = connection.alias(LISTING)
    await load(connection, LISTINGS, Progress())
    first = await _generations(client, prefix)
    assert len(first) == 1
    assert (await client.count(index=alias))["count"] == LISTINGS
    [largest, *others] = await companies(connection)
    assert largest.listings + sum(each.listings for each in others) == LISTINGS
    shown = sorted(await identifiers(connection))
    assert (len(shown), shown[-1]) == (largest.listings, largest.last)

    # Nothing is loaded twice, and changed records are merged into one segment again.
    await client.update(index=alias, id=shown[0], doc={}, detect_noop=False, refresh=True)
    await load(connection, LISTINGS, Progress())
    assert await _generations(client, prefix) == first
    segments = await client.indices.stats(index=alias, metric="segments")
    assert segments["_all"]["primaries"]["segments"]["count"] == 1

    # Incomplete data is loaded again.
    await client.delete(index=alias, id=shown[0], refresh=True)
    await load(connection, LISTINGS, Progress())
    assert not first.items() & (await _generations(client, prefix)).items()

    await unload(connection)
    assert await client.indices.get(index=f"{prefix}*", expand_wildcards="all") == {}


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
        async with session.get(f"{tap.url}/packed") as packed:
            assert (packed.headers["Content-Encoding"], await packed.read()) == ("gzip", b"packed")
    assert tap.heard[:2] == [Heard("POST", "/t-listings/_search?a=%20b", b"\t{}"), Heard("GET", "/missing", b"")]
    assert tap.of("t-listings", 0) == tap.heard[:1]
    assert tap.of("t-listings", 1) == []
