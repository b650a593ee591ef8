"""A node that takes requests and never answers is found out; one that is slow is left alone."""

import asyncio
import time

import pytest
from elastic_transport import ConnectionError as NodeConnectionError
from elastic_transport import ConnectionTimeout, HttpHeaders

from tests.cluster.http.http_responses import OK, with_length
from tests.cluster.http.node_choice import (
    HEADERS,
    TICK_SECONDS,
    NodeChoice,
    answer_with_name,
    choose_among,
    frozen_node,
    probe_requests,
    short_ticks,
    slow_node,
)
from tests.internals import idle_connections
from tests.loops import on_each_loop
from tests.network.server import Connection, silent
from tests.waiting import until

__all__ = ["short_ticks"]

# Enough to be found silent three times.
LONG_SECONDS = 40 * TICK_SECONDS


async def held(choice: NodeChoice, at: int, count: int) -> list[asyncio.Task[str]]:
    """Return as many searches, all of them on their way to one node; the others are kept out of the choice."""
    others = [choice.node(other) for other in range(len(choice.servers)) if other != at]
    for node in others:
        node.health.is_healthy = False
    asking = [asyncio.create_task(choice.ask()) for _ in range(count)]
    await until(lambda: len(choice.node(at).health.in_flight) == count)
    for node in others:
        node.health.is_healthy = True
    return asking


@pytest.mark.parametrize("begun", [b"", OK, with_length(b'"half of it', *HEADERS)[:-4]])
@on_each_loop
async def test_requests_to_a_frozen_node_fail_over_and_no_more_go_there_until_it_answers(begun: bytes) -> None:
    thawed = asyncio.Event()
    async with choose_among(frozen_node("a", thawed, begun=begun), answer_with_name("b"), connections=3) as choice:
        # Some of them wait for a turn.
        asking = await held(choice, 0, 5)
        for error in await asyncio.gather(*asking, return_exceptions=True):
            assert isinstance(error, NodeConnectionError)
            assert not isinstance(error, ConnectionTimeout)
        assert choice.node(0).health.is_silent
        assert not choice.node(0).health.in_flight
        assert {await choice.ask() for _ in range(20)} == {"b"}
        thawed.set()
        await until(lambda: choice.node(0).health.is_healthy)
        if not begun:
            assert {await choice.ask() for _ in range(40)} == {"a", "b"}


@on_each_loop
async def test_connections_that_wait_at_a_silent_node_are_dropped() -> None:
    async def script(connection: Connection) -> None:
        if connection.number == 1:
            await answer_with_name("a", after=2 * TICK_SECONDS)(connection)
        await connection.reader.read()

    async with choose_among(script, answer_with_name("b")) as choice:
        (asked,) = await held(choice, 0, 1)
        assert await asked == "a"
        idle = idle_connections(choice.node(0))
        (waiting,) = idle
        idle.clear()
        (asked,) = await held(choice, 0, 1)
        idle.append(waiting)
        with pytest.raises(NodeConnectionError):
            await asked
        assert idle_connections(choice.node(0)) == []


@on_each_loop
async def test_a_slow_node_is_asked_and_left_alone() -> None:
    async with choose_among(slow_node("slow", times=3), answer_with_name("b")) as choice:
        asking = await held(choice, 0, 4)
        assert await asyncio.gather(*asking) == ["slow"] * 4
        assert choice.searches(0) == 4
        # Those of the searches stay; those of the questions do not.
        await until(lambda: choice.servers[0].open == 4)
        assert choice.probe_requests(1) == 0


@on_each_loop
async def test_a_node_is_not_given_up_after_one_lost_probe() -> None:
    """The first probe is never answered, the second is; the search then has all the time that it needs."""

    async def script(connection: Connection) -> None:
        is_probe = (await connection.request()).startswith(b"HEAD")
        if is_probe and len(probe_requests(connection.server)) == 1:
            await connection.reader.read()
        elif is_probe:
            await connection.send(with_length(b"", *HEADERS))
        else:
            await until(lambda: len(probe_requests(connection.server)) == 3)
            await connection.send(with_length(b'"a"', *HEADERS))

    async with choose_among(script, answer_with_name("b")) as choice:
        (asked,) = await held(choice, 0, 1)
        assert await asked == "a"
        assert choice.node(0).health.is_healthy


@on_each_loop
async def test_a_node_that_keeps_sending_is_not_asked() -> None:
    async def script(connection: Connection) -> None:
        await connection.request()
        for at in range(sent := 60):
            whole = with_length(b" " * (sent - 15) + b'"a"', *HEADERS)
            await connection.send(whole[at * len(whole) // sent : (at + 1) * len(whole) // sent])
            await asyncio.sleep(TICK_SECONDS / 2)

    async with choose_among(script, answer_with_name("b")) as choice:
        (asked,) = await held(choice, 0, 1)
        assert await asked == "a"
        assert choice.probe_requests(0) == 0


@on_each_loop
async def test_where_no_node_answers_nothing_is_given_up() -> None:
    thawed = asyncio.Event()
    async with choose_among(frozen_node("a", thawed), frozen_node("b", thawed)) as choice:
        asking = [asyncio.create_task(choice.ask()) for _ in range(6)]
        await until(lambda: choice.node(0).health.is_silent and choice.node(1).health.is_silent)
        await asyncio.sleep(LONG_SECONDS / 4)
        with pytest.raises(ConnectionTimeout):
            await choice.ask(within=TICK_SECONDS)
        assert [task.done() for task in asking] == [False] * 6
        thawed.set()
        assert set(await asyncio.gather(*asking)) == {"a", "b"}


@on_each_loop
async def test_a_single_node_is_never_asked() -> None:
    async with choose_among(frozen_node("a", asyncio.Event())) as choice:
        with pytest.raises(ConnectionTimeout):
            await choice.ask(within=LONG_SECONDS / 2)
        assert choice.servers[0].accepted == 1
        assert choice.pulse(0) == (None, None)


@on_each_loop
async def test_a_process_that_was_paused_considers_no_node_silent() -> None:
    go_on = asyncio.Event()

    async def script(connection: Connection) -> None:
        while True:
            if not (await connection.request()).startswith(b"HEAD"):
                await go_on.wait()
            await connection.send(with_length(b'"a"', *HEADERS))

    async with choose_among(script, answer_with_name("b")) as choice:
        asking = await held(choice, 0, 2)
        for _ in range(16):
            time.sleep(6 * TICK_SECONDS)  # noqa: ASYNC251 - standing still is what is tested
            # Not enough for an answer, which takes some rounds of the loop in client and server.
            for _ in range(3):
                await asyncio.sleep(0)
        go_on.set()
        assert [await task for task in asking] == ["a"] * 2


@on_each_loop
async def test_no_time_is_kept_while_nothing_is_in_flight() -> None:
    async with choose_among(answer_with_name("a", after=LONG_SECONDS / 3), answer_with_name("b")) as choice:
        asking = await held(choice, 0, 2)
        assert choice.pulse(0)[0] is not None
        await asyncio.gather(*asking)
        await until(lambda: choice.pulse(0) == (None, None))


@on_each_loop
async def test_nothing_is_left_when_it_is_closed() -> None:
    async with choose_among(silent(), answer_with_name("b")) as choice:
        (asked,) = await held(choice, 0, 1)
        with pytest.raises(NodeConnectionError):
            await asked
        _, question = choice.pulse(0)
        await choice.transport.close()
        assert choice.pulse(0) == (None, None)
        assert question is not None
        assert question.done()
        await until(lambda: choice.servers[0].open == 0)


@on_each_loop
async def test_the_question_is_asked_as_who_asked_last() -> None:
    async with choose_among(slow_node("a", times=1), answer_with_name("b")) as choice:
        node = choice.node(0)
        await node.perform_request("GET", "/search", headers=HttpHeaders({"authorization": "ApiKey YTpi"}))
        assert all(b"\r\nauthorization: ApiKey YTpi\r\n" in asked for asked in probe_requests(choice.servers[0]))
