"""Connections of `ReadingNode`: reused, limited, replaced when stale, closed when anything is wrong with them."""

import asyncio

import pytest
from elastic_transport import ConnectionTimeout

from cluster.http.responses import ResponseParser
from tests.cluster.http.http_responses import OK, chunked, split, with_length
from tests.cluster.http.test_response_parser_cost import CHUNK_BYTES, PAGE
from tests.internals import idle_connections, once_settled
from tests.loops import Run, on_each_loop
from tests.network.server import Connection, answering, serving, silent
from tests.waiting import until

ANSWER = with_length(b"x")


@on_each_loop
async def test_a_connection_is_used_again() -> None:
    async with serving(answering(ANSWER, chunked([b"x"]), ANSWER)) as server:
        node = server.node()
        for _ in range(5):
            assert (await node.perform_request("GET", "/")).body == b"x"
        assert (server.accepted, len(server.requests)) == (1, 5)
        await node.close()
        await until(lambda: server.open == 0)


@on_each_loop
async def test_a_connection_that_waits_does_not_hold_on_to_its_answer() -> None:
    async with serving(answering(ANSWER)) as server:
        node = server.node()
        await node.perform_request("GET", "/")
        (channel,) = idle_connections(node)
        assert not any(isinstance(held, ResponseParser) for held in vars(channel).values())
        await node.close()


def test_a_kept_traceback_of_the_event_loop_does_not_lock_the_buffer(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps asyncio's frame, and that the view received into; pytest keeps those of failed finalizers."""
    kept: list[Exception] = []
    feed = ResponseParser.feed

    def feed_with_error(parser: ResponseParser, count: int) -> bool:
        try:
            int("in a finalizer, say")
        except ValueError as error:
            kept.append(error)
        return feed(parser, count)

    async def scenario() -> None:
        async with serving(answering(ANSWER)) as server:
            node = server.node()
            assert (await node.perform_request("GET", "/")).body == b"x"
            await node.close()

    monkeypatch.setattr(ResponseParser, "feed", feed_with_error)
    run(scenario())
    assert kept


def test_what_is_set_aside_for_a_page_is_not_forgotten_over_a_small_answer(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected: list[int] = []

    class Watched(ResponseParser):
        def __init__(self, size: int = 0, **options: bool) -> None:
            expected.append(size)
            super().__init__(size, **options)

    async def scenario() -> None:
        async with serving(answering(chunked(split(PAGE, CHUNK_BYTES)), ANSWER)) as server:
            node = server.node()
            for _ in range(3):
                await node.perform_request("GET", "/")
            await node.close()

    monkeypatch.setattr("cluster.http.nodes.ResponseParser", Watched)
    run(scenario())
    first, second, third = expected
    assert first == 0
    assert len(PAGE) < second == third < 2 * len(PAGE)


@on_each_loop
async def test_no_more_connections_than_allowed_and_everyone_has_a_turn() -> None:
    async def script(connection: Connection) -> None:
        while await connection.request():
            await asyncio.sleep(0.005)
            await connection.send(ANSWER)

    async with serving(script) as server:
        node = server.node(connections_per_node=3)
        answers = await asyncio.gather(*(node.perform_request("GET", "/") for _ in range(30)))
        assert [answer.body for answer in answers] == [b"x"] * 30
        assert (server.accepted, server.most_open, len(server.requests)) == (3, 3, 30)
        await node.close()


@on_each_loop
async def test_a_request_that_waits_in_vain_times_out_and_harms_no_other() -> None:
    go_on = asyncio.Event()

    async def script(connection: Connection) -> None:
        while await connection.request():
            await go_on.wait()
            await connection.send(ANSWER)

    async with serving(script) as server:
        node = server.node(connections_per_node=1)
        first = asyncio.create_task(node.perform_request("GET", "/"))
        await until(lambda: len(server.requests) == 1)
        with pytest.raises(ConnectionTimeout):
            await node.perform_request("GET", "/", request_timeout=0.05)
        go_on.set()
        assert (await first).body == b"x"
        assert (await node.perform_request("GET", "/")).body == b"x"
        assert (server.accepted, len(server.requests)) == (1, 2)
        await node.close()


@pytest.mark.parametrize("begun", [b"", OK, with_length(b"x" * 9)[:-4]])
@on_each_loop
async def test_a_time_out_closes_the_connection(begun: bytes) -> None:
    async with serving(silent(after=begun)) as server:
        # On a busy machine the time may be over before the server has the request.
        for seconds in (0.1, 1.0, 10.0):
            node = server.node(request_timeout=seconds)
            with pytest.raises(ConnectionTimeout):
                await node.perform_request("GET", "/")
            if server.requests:
                break
        await until(lambda: server.open == 0)
        assert len(server.requests) == 1


@on_each_loop
async def test_who_is_cancelled_closes_the_connection() -> None:
    async with serving(silent(after=OK)) as server:
        node = server.node(connections_per_node=1)
        asked = asyncio.create_task(node.perform_request("GET", "/"))
        await until(lambda: len(server.requests) == 1)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await until(lambda: server.open == 0)
        following = asyncio.create_task(node.perform_request("GET", "/"))
        await until(lambda: len(server.requests) == 2)
        following.cancel()
        await asyncio.wait([following])


@on_each_loop
async def test_who_is_cancelled_when_the_answer_has_just_come_leaves_no_connection_behind() -> None:
    async with serving(answering(ANSWER)) as server:
        node = server.node()
        await node.perform_request("GET", "/")
        (channel,) = idle_connections(node)
        asked = asyncio.create_task(node.perform_request("GET", "/"))
        once_settled(channel, asked.cancel)
        with pytest.raises(asyncio.CancelledError):
            await asked
        await until(lambda: server.open == 0)
