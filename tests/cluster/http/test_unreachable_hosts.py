"""Hosts that are gone or half gone: each is an error of the connection, and soon."""

import asyncio
import errno
import socket
from contextlib import closing

import pytest
from elastic_transport import ConnectionError as NodeConnectionError
from elastic_transport import ConnectionTimeout, NodeConfig

from cluster.http.nodes import ReadingNode
from tests.cluster.http.http_responses import OK, with_length
from tests.internals import Internals, idle_connections, open_connection
from tests.loops import Run, on_each_loop
from tests.network.server import serving, silent
from tests.waiting import until

# Longer than any test may take.
HOUR_SECONDS = 3600.0


def test_a_host_that_never_responds_is_an_error_long_before_the_request_times_out(
    run: Run, internals: Internals
) -> None:
    internals(node_connect_seconds=0.2)

    async def scenario(port: int) -> None:
        node = ReadingNode(NodeConfig("http", "127.0.0.1", port))
        with pytest.raises(NodeConnectionError, match="does not accept connections"):
            await node.perform_request("GET", "/", request_timeout=HOUR_SECONDS)
        internals(node_connect_seconds=HOUR_SECONDS)
        with pytest.raises(ConnectionTimeout):
            await node.perform_request("GET", "/", request_timeout=0.05)

    with closing(socket.socket()) as full:
        # Once its queue is full the system drops what asks for a connection, as a firewall does.
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        filling = [socket.socket() for _ in range(4)]
        for client in filling:
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
        run(scenario(port))
        for client in filling:
            client.close()


@on_each_loop
async def test_a_host_that_the_system_gives_up_on_is_an_error_not_a_time_out() -> None:
    async with serving(silent()) as server:
        node = server.node()
        channel = await open_connection(node)
        idle_connections(node).append(channel)
        channel._last_used = asyncio.get_running_loop().time()
        asked = asyncio.create_task(node.perform_request("GET", "/", request_timeout=HOUR_SECONDS))
        await until(lambda: server.requests)
        channel._last_used = None  # a connection that was never used is not replaced
        channel.connection_lost(TimeoutError(errno.ETIMEDOUT, "scripted"))
        with pytest.raises(NodeConnectionError) as caught:
            await asked
        assert not isinstance(caught.value, ConnectionTimeout)
        await node.close()


@pytest.mark.parametrize("begun", [b"", OK, with_length(b"x" * 9)[:-4]])
@on_each_loop
async def test_a_server_that_will_send_no_more_is_not_waited_for(begun: bytes) -> None:
    async with serving(silent(after=begun, is_half_closed=True)) as server:
        with pytest.raises(NodeConnectionError):
            await server.node().perform_request("GET", "/", request_timeout=HOUR_SECONDS)
        await until(lambda: server.open == 0)
