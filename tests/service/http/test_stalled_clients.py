"""Clients that read slowly or not at all: what they leave unread is bounded in time and in bytes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import pytest
from aiohttp import web

from service.http import send_monitor
from service.http.connection import HttpConnection
from service.http.responses import json_response
from service.http.send_monitor import SEND_MONITOR, SendLimits, SendMonitor
from service.limits.admission import UnreadResponses
from service.settings import ServiceSettings
from service.telemetry.observation import CURRENT_OBSERVATION, RequestObservation
from tests.loops import Run, run
from tests.service.internals import Clock, Internals
from tests.service.raw_http import listening
from tests.waiting import until

__all__ = ["run"]

# More than the buffers between two sockets take.
BODY = b"x" * 24_000_000
PERIOD = 60.0
LEAST = 1000
IN_ALL = 100_000_000


@pytest.fixture
def clock(internals: Internals) -> Clock:
    """A clock that only a test moves."""
    clock = Clock()
    internals(send_time=clock)
    return clock


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Slow:
    """A server with large responses, and its monitor, which acts when a test says so."""

    monitor: SendMonitor
    clock: Clock
    port: int = 0
    asked: int = 0

    async def answer(self, request: web.Request) -> web.Response:
        """Send the large body, in the name of the key in the path, or a small one in no name."""
        self.asked += 1
        observation = RequestObservation()
        observation.key_id = request.path.strip("/")
        CURRENT_OBSERVATION.set(observation)
        return json_response([BODY[:100]] if observation.key_id == "small" else [BODY])

    async def ask(self, *keys: str, is_kept: bool = True) -> Streams:
        """Ask without reading, once for each key on the same connection; return when the first waits to be read."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1024)
        before = self.monitor.unsent_bytes
        for key in keys:
            writer.write(f"GET /{key} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await until(lambda: not is_kept or self.monitor.unsent_bytes > before)
        return reader, writer

    def pass_period(self) -> None:
        self.monitor.sweep()
        self.clock.now += PERIOD
        self.monitor.sweep()


@asynccontextmanager
async def slow(clock: Clock, **limits: Any) -> AsyncIterator[Slow]:
    """Serve."""
    given: dict[str, Any] = {
        "stall_seconds": PERIOD,
        "least_bytes_per_second": LEAST,
        "bytes_per_key": IN_ALL,
        "bytes_in_all": IN_ALL,
        "room_seconds": 3600.0,
    }
    monitor = SendMonitor(SendLimits(**given | limits))
    served, app = Slow(monitor, clock), web.Application()
    app[SEND_MONITOR] = monitor
    app.router.add_get("/{key}", served.answer)
    async with listening(app, ServiceSettings(deadline_seconds=1.0)) as port:
        served.port = port
        yield served


async def is_cut(streams: Streams, received: int = 0) -> bool:
    """Read to the end; return whether it came before the end of the body, of which some was received before."""
    try:
        while some := await streams[0].read(65_536):
            received += len(some)
            if received > len(BODY):
                return False
    except ConnectionError:
        pass
    return received < len(BODY)


async def read(streams: Streams, monitor: SendMonitor, count: int) -> None:
    """Read so many bytes, and wait until the server knows of it."""
    (connection,) = monitor._connections
    before = send_monitor._acknowledged(connection)
    await streams[0].readexactly(count)
    await until(lambda: send_monitor._acknowledged(connection) - before >= count // 2)


def test_a_client_that_reads_nothing_is_cut_off(run: Run, clock: Clock) -> None:
    async def scenario() -> None:
        async with slow(clock) as served:
            streams = await served.ask("a")
            served.pass_period()
            assert await is_cut(streams)
            await until(lambda: not served.monitor._connections)
            assert served.monitor.unsent_bytes == 0
            streams[1].close()

    run(scenario())


def test_a_client_that_reads_little_but_enough_gets_everything(run: Run, clock: Clock) -> None:
    async def scenario() -> None:
        async with slow(clock) as served:
            streams = await served.ask("a")
            served.monitor.sweep()
            for _ in range(5):
                # Far from all that waits for it.
                await read(streams, served.monitor, 4_000_000)
                clock.now += PERIOD
                served.monitor.sweep()
            assert not await is_cut(streams, 5 * 4_000_000)
            streams[1].close()

    run(scenario())


def test_a_client_that_reads_too_little_is_cut_off(run: Run, clock: Clock) -> None:
    async def scenario() -> None:
        async with slow(clock, least_bytes_per_second=1_000_000) as served:
            streams = await served.ask("a")
            served.monitor.sweep()
            await read(streams, served.monitor, 4_000_000)
            clock.now += PERIOD
            served.monitor.sweep()
            assert await is_cut(streams)
            streams[1].close()

    run(scenario())


def test_requests_behind_an_unread_response_are_not_served(run: Run, clock: Clock) -> None:
    async def scenario() -> None:
        async with slow(clock) as served:
            streams = await served.ask(*"aaaa")
            served.pass_period()
            assert await is_cut(streams)
            assert served.asked == 1
            streams[1].close()

    run(scenario())


def test_a_connection_that_is_closed_with_unread_bytes_is_cut_off(run: Run, clock: Clock) -> None:
    async def scenario() -> None:
        async with slow(clock) as served:
            streams = await served.ask("a")
            (connection,) = served.monitor._connections
            # As at the end of its keep-alive time.
            cast("HttpConnection", connection).force_close()
            served.pass_period()
            await until(lambda: not served.monitor._connections)
            assert await is_cut(streams)
            streams[1].close()

    run(scenario())


def test_an_idle_client_that_has_read_everything_stays(run: Run, clock: Clock) -> None:
    async def scenario() -> None:
        async with slow(clock) as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            for _ in range(2):
                writer.write(b"GET /small HTTP/1.1\r\nHost: x\r\n\r\n")
                await reader.readuntil(b"x" * 100)
                served.pass_period()
            writer.close()

    run(scenario())


def test_a_key_with_too_many_unread_bytes_is_refused(run: Run, clock: Clock) -> None:
    async def scenario() -> None:
        async with slow(clock, bytes_per_key=3 * len(BODY), room_seconds=0.0) as served:
            await served.monitor.wait_for_room("a", 10 * len(BODY))
            asked = [await served.ask("a"), await served.ask("a")]
            await served.monitor.wait_for_room("a")
            await served.monitor.wait_for_room("a", len(BODY))
            with pytest.raises(UnreadResponses):
                await served.monitor.wait_for_room("a", len(BODY) + 1)
            asked.append(await served.ask("a"))
            with pytest.raises(UnreadResponses):
                await served.monitor.wait_for_room("a")
            await served.monitor.wait_for_room("b", 10 * len(BODY))
            for each in asked:
                each[1].close()

    run(scenario())


def test_a_request_waits_until_its_key_has_read_a_response(run: Run, clock: Clock) -> None:
    async def scenario() -> None:
        async with slow(clock, bytes_per_key=len(BODY)) as served:
            streams = await served.ask("a")
            waiting = [asyncio.create_task(served.monitor.wait_for_room("a")) for _ in range(2)]
            await asyncio.sleep(0)
            assert not any(each.done() for each in waiting)
            assert not await is_cut(streams)
            await asyncio.gather(*waiting)
            streams[1].close()

    run(scenario())


def test_an_unread_response_counts_as_a_whole(run: Run, clock: Clock) -> None:
    """What the kernel has taken of it stays in memory: its parts are slices of one buffer."""

    async def scenario() -> None:
        async with slow(clock) as served:
            streams = await served.ask("a")
            (connection,) = served.monitor._connections
            assert send_monitor._unsent(connection) < len(BODY)
            assert served.monitor.unsent_bytes == len(BODY)
            streams[1].close()

    run(scenario())


def test_beyond_the_bytes_in_all_the_key_with_most_loses_its_oldest_connection(run: Run, clock: Clock) -> None:
    async def scenario() -> None:
        async with slow(clock, bytes_in_all=int(2.5 * len(BODY))) as served:
            first, other = await served.ask("a"), await served.ask("b")
            second = await served.ask("a", is_kept=False)
            assert await is_cut(first)
            await until(lambda: served.monitor.unsent_bytes < 2.5 * len(BODY))
            assert [await is_cut(each) for each in (second, other)] == [False, False]
            for each in (first, second, other):
                each[1].close()

    run(scenario())
