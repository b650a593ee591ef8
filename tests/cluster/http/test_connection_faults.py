"""Faults of connections of `ReadingNode`: what is an error, and what is retried."""

import asyncio

import pytest
from elastic_transport import ConnectionError as NodeConnectionError

from tests.cluster.http.http_responses import OK, chunked, split, until_close, with_length
from tests.internals import open_connection
from tests.loops import on_each_loop
from tests.network.server import Connection, ending_on, serving, silent
from tests.waiting import until

ANSWER = with_length(b"x")

CUT = {
    "known length": with_length(b"x" * 9)[:-1],
    "within the head": OK,
    "within a chunk": chunked([b"x" * 9])[:-12],
    "before the last chunk": chunked(split(b"x" * 9, 3))[:-5],
    "no answer": b"SSH-2.0\r\n\r\n",
}


@pytest.mark.parametrize("fault", CUT)
@pytest.mark.parametrize("before", [0, 1])
@on_each_loop
async def test_a_truncated_body_is_an_error_and_not_retried(fault: str, before: int) -> None:
    async def script(connection: Connection) -> None:
        for _ in range(before):
            await connection.request()
            await connection.send(ANSWER)
        await connection.request()
        await connection.send(CUT[fault])

    async with serving(script) as server:
        node = server.node()
        for _ in range(before):
            await node.perform_request("GET", "/")
        with pytest.raises(NodeConnectionError):
            await node.perform_request("GET", "/")
        assert (server.accepted, len(server.requests)) == (1, before + 1)
        await until(lambda: server.open == 0)


@on_each_loop
async def test_an_answer_without_length_is_not_whole_when_its_connection_was_reset() -> None:
    async with serving(silent(after=until_close(b"half of it"))) as server:
        node = server.node()
        channel = await open_connection(node)
        asked = asyncio.create_task(channel.request(b"GET / HTTP/1.1\r\n\r\n"))
        await until(lambda: node.health.receive_count)
        channel.connection_lost(ConnectionResetError("scripted"))
        with pytest.raises(ConnectionResetError, match="scripted"):
            await asked


@on_each_loop
async def test_a_connection_closed_while_it_waited_is_replaced() -> None:
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(ANSWER)

    async with serving(script) as server:
        node = server.node()
        for number in range(1, 4):
            assert (await node.perform_request("GET", "/")).body == b"x"
            await until(lambda: server.open == 0)
            assert (server.accepted, len(server.requests)) == (number, number)


@on_each_loop
async def test_a_request_that_finds_its_connection_closed_is_sent_once_more() -> None:
    async with serving(ending_on(ANSWER)) as server:
        node = server.node()
        await node.perform_request("GET", "/")
        assert (await node.perform_request("GET", "/")).body == b"x"
        assert (server.accepted, len(server.requests)) == (2, 3)
        await node.close()


@on_each_loop
async def test_a_request_is_sent_twice_at_most_however_many_connections_wait() -> None:
    arrived = asyncio.Barrier(4)

    async def script(connection: Connection) -> None:
        await connection.request()
        if connection.number <= 4:
            await arrived.wait()
            await connection.send(ANSWER)
            await connection.request()

    async with serving(script) as server:
        node = server.node()
        await asyncio.gather(*(node.perform_request("GET", "/") for _ in range(4)))
        with pytest.raises(NodeConnectionError):
            await node.perform_request("GET", "/")
        assert len(server.requests) == 4 + 2


@on_each_loop
async def test_a_fresh_connection_that_is_closed_is_an_error() -> None:
    async def script(connection: Connection) -> None:
        await connection.request()

    async with serving(script) as server:
        with pytest.raises(NodeConnectionError):
            await server.node().perform_request("GET", "/")
        assert (server.accepted, len(server.requests)) == (1, 1)
