"""When `ReadingNode` gives a connection up, and what cannot be reached at all."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from elastic_transport import ConnectionError as NodeConnectionError
from elastic_transport import NodeConfig

from cluster.http.nodes import ReadingNode
from tests.cluster.http.http_responses import chunked, until_close, with_length
from tests.internals import Internals, idle_connections, once_settled
from tests.loops import Run, on_each_loop
from tests.network.server import Connection, Script, answering, serving, silent
from tests.waiting import until

ANSWER = with_length(b"x")


async def expect_a_connection_each(script: Script, requests: int) -> None:
    """Send some requests, each of which must be answered, and must end its connection."""
    async with serving(script) as server:
        node = server.node()
        for number in range(1, requests + 1):
            assert (await node.perform_request("GET", "/")).body == b"x"
            await until(lambda: server.open == 0)
            assert server.accepted == number


def answering_after(wait: Callable[[], Awaitable[object]]) -> Script:
    """Return a script that answers one request of a connection, after a wait."""

    async def script(connection: Connection) -> None:
        await connection.request()
        await wait()
        await connection.send(ANSWER)
        await connection.reader.read()

    return script


@pytest.mark.parametrize("later", [False, True])
@on_each_loop
async def test_unexpected_bytes_close_the_connection(later: bool) -> None:
    async def script(connection: Connection) -> None:
        await connection.request()
        if later:
            await connection.send(ANSWER)
            await asyncio.sleep(0.05)
            await connection.send(with_length(b"stray"))
        else:
            await connection.send(ANSWER + with_length(b"stray"))
        await connection.reader.read()

    await expect_a_connection_each(script, requests=2)


@on_each_loop
async def test_bytes_that_come_before_the_answer_is_fetched_end_the_connection() -> None:
    async with serving(answering(ANSWER)) as server:
        node = server.node()
        await node.perform_request("GET", "/")
        (channel,) = idle_connections(node)

        def receive() -> None:
            channel.get_buffer(-1)[:4] = b"HTTP"
            channel.buffer_updated(4)

        once_settled(channel, receive)
        await node.perform_request("GET", "/")
        await until(lambda: server.open == 0)
        await node.perform_request("GET", "/")
        assert server.accepted == 2
        await node.close()


@pytest.mark.parametrize(
    "script",
    [
        answering(with_length(b"x", b"Connection: close")),
        answering(chunked([b"x"], b"connection: close")),
        silent(after=with_length(b"x"), is_half_closed=True),
        silent(after=until_close(b"x"), is_half_closed=True),
    ],
    ids=["length", "chunked", "half-closed", "until-close"],
)
@on_each_loop
async def test_a_server_may_end_the_connection_with_its_answer(script: Script) -> None:
    await expect_a_connection_each(script, requests=3)


@on_each_loop
async def test_a_connection_that_waited_too_long_is_not_used_again(internals: Internals) -> None:
    async with serving(answering(ANSWER)) as server:
        node = server.node()
        await node.perform_request("GET", "/")
        internals(node_keepalive_seconds=0.0)
        await node.perform_request("GET", "/")
        assert server.accepted == 2
        await until(lambda: server.open == 1)
        await node.close()


@on_each_loop
async def test_close_ends_every_connection_that_waits() -> None:
    async with serving(answering_after(asyncio.Barrier(5).wait)) as server:
        node = server.node()
        await asyncio.gather(*(node.perform_request("GET", "/") for _ in range(5)))
        assert server.open == 5
        await node.close()
        await until(lambda: server.open == 0)


@on_each_loop
async def test_an_answer_that_comes_after_close_leaves_no_connection_behind() -> None:
    closed = asyncio.Event()
    async with serving(answering_after(closed.wait)) as server:
        node = server.node()
        asking = asyncio.create_task(node.perform_request("GET", "/"))
        await until(lambda: server.open == 1)
        await node.close()
        closed.set()
        assert (await asking).body == b"x"
        await until(lambda: server.open == 0)


def test_a_refused_connection_is_an_error(run: Run, unused_tcp_port: int) -> None:
    node = ReadingNode(NodeConfig("http", "127.0.0.1", unused_tcp_port, connections_per_node=1))
    for _ in range(2):  # the first leaves its place to the second
        with pytest.raises(NodeConnectionError):
            run(node.perform_request("GET", "/"))


def test_an_unknown_host_is_an_error(run: Run) -> None:
    with pytest.raises(NodeConnectionError):
        run(ReadingNode(NodeConfig("http", "nowhere.invalid", 9200)).perform_request("GET", "/"))
