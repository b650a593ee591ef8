"""What the transport of the commands sends to another node, and what it leaves to the caller."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from elastic_transport import AsyncTransport
from elastic_transport import ConnectionError as NodeConnectionError

from cluster.connection import ConnectionSettings, connect
from tests.cluster.http.http_responses import with_length
from tests.internals import Internals
from tests.loops import on_each_loop
from tests.network.server import Connection, Server, answering, serving

ANSWER = with_length(b"{}", b"Content-Type: application/json")
ONCE: dict[str, Any] = {"max_retries": 0}  # as the client asks its transport
BULK = {"headers": {"content-type": "application/json"}, "body": b"{}", **ONCE}


async def break_off(connection: Connection) -> None:
    """Take a request, and drop the connection, as a node that is killed."""
    await connection.request()
    connection.reset()


@asynccontextmanager
async def two_nodes() -> AsyncIterator[tuple[AsyncTransport, Server, Server]]:
    """A node that breaks off every request, and a sound one; the first is asked first."""
    async with AsyncExitStack() as stack:
        broken = await stack.enter_async_context(serving(break_off))
        sound = await stack.enter_async_context(serving(answering(*[ANSWER] * 4)))
        settings = ConnectionSettings(url=(broken.url, sound.url))
        client = await stack.enter_async_context(
            connect(settings, connections=2, timeout=10, randomize_nodes_in_pool=False)
        )
        yield client.transport, broken, sound


@pytest.mark.parametrize(
    ("method", "target"), [("GET", "/_cluster/health"), ("POST", "/a/_search?size=1"), ("POST", "/a/_mget")]
)
@on_each_loop
async def test_a_read_that_breaks_off_goes_to_another_node(method: str, target: str) -> None:
    async with two_nodes() as (transport, broken, sound):
        assert (await transport.perform_request(method, target, **ONCE)).meta.status == 200
        asked = len(broken.requests)
        assert (await transport.perform_request(method, target, **ONCE)).meta.status == 200
        assert (len(broken.requests), len(sound.requests)) == (asked, 2)


@on_each_loop
async def test_a_write_goes_to_another_node_only_if_it_was_not_sent() -> None:
    async with two_nodes() as (transport, broken, sound):
        with pytest.raises(NodeConnectionError):
            await transport.perform_request("POST", "/a/_bulk", **BULK)
        assert not sound.requests
    async with two_nodes() as (transport, broken, sound):
        broken.refuse()
        await transport.perform_request("POST", "/a/_bulk", **BULK)
        assert len(sound.requests) == 1


@on_each_loop
async def test_each_node_is_asked_once_if_none_answers() -> None:
    async with serving(break_off) as first, serving(break_off) as second:
        async with connect(ConnectionSettings(url=(first.url, second.url)), connections=2, timeout=10) as client:
            with pytest.raises(NodeConnectionError):
                await client.transport.perform_request("POST", "/a/_search", **ONCE)
        assert (len(first.requests), len(second.requests)) == (1, 1)


@on_each_loop
async def test_a_read_is_repeated_while_shards_of_a_lost_node_come_back(internals: Internals) -> None:
    internals(cluster_pauses_seconds=(0.0, 0.0))
    away = with_length(b"{}", b"Content-Type: application/json", first=b"HTTP/1.1 503 Service Unavailable\r\n")

    async with serving(answering(*[away] * 9)) as first, serving(answering(*[away] * 9)) as second:
        both = ConnectionSettings(url=(first.url, second.url))
        async with connect(both, connections=2, timeout=10) as client:
            assert (await client.transport.perform_request("GET", "/a/_doc/1", **ONCE)).meta.status == 503
            assert len(first.requests) + len(second.requests) == 3
            await client.transport.perform_request("POST", "/a/_bulk", **BULK)
            assert len(first.requests) + len(second.requests) == 4
        async with connect(ConnectionSettings(url=(first.url,)), connections=2, timeout=10) as client:
            before = len(first.requests)
            await client.transport.perform_request("GET", "/a/_doc/1", **ONCE)
            assert len(first.requests) == before + 1
