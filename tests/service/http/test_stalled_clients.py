"""Clients that read slowly or not at all: what they leave unread is bounded in time, in bytes, and by their key."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import pytest
from aiohttp import web

from service.http.connection import HttpConnection
from service.http.responses import json_response
from service.http.send_monitor import (
    SEND_MONITOR,
    SendLimits,
    SendMonitor,
    acknowledged_bytes,
    buffered_bytes,
    has_more,
)
from service.limits.admission import UnreadResponses
from service.settings import ServiceSettings
from service.telemetry.observation import CURRENT_OBSERVATION, RequestObservation
from tests.internals import Clock, Internals, sending_connections
from tests.loops import Run, run
from tests.service.raw_http import listening
from tests.waiting import until

__all__ = ["run"]

# More than the buffers between two sockets take.
BODY = b"x" * 24_000_000
# Of other bodies, by key: one fits into a packet, one into the buffer of the service's kernel.
SIZES = {"small": 100, "medium": 300_000}
CLIENT_BUFFER_BYTES = 16_384
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
    opened: list[Streams] = field(default_factory=list)
    withdrawn: set[str] = field(default_factory=set)  # keys

    async def answer(self, request: web.Request) -> web.Response:
        """Send the large body, in the name of the key in the path, or a small one in no name."""
        self.asked += 1
        observation = RequestObservation()
        key = observation.key_id = request.path.strip("/")
        observation.is_withdrawn = lambda: key in self.withdrawn
        CURRENT_OBSERVATION.set(observation)
        response = json_response([BODY[: SIZES.get(key, len(BODY))]])
        response.set_status(401 if key == "refused" else 200)
        return response

    async def ask(self, *keys: str, is_kept: bool = True) -> Streams:
        """Ask without reading, once for each key on the same connection; return when the first waits to be read."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1024)
        before = self.monitor.unsent_bytes
        for key in keys:
            writer.write(f"GET /{key} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await until(lambda: not is_kept or self.monitor.unsent_bytes > before)
        self.opened.append((reader, writer))
        return reader, writer

    @property
    def connection(self) -> HttpConnection:
        """The only connection."""
        (connection,) = sending_connections(self.monitor)
        return cast("HttpConnection", connection)

    def pass_period(self) -> None:
        self.monitor.sweep()
        self.clock.now += PERIOD
        self.monitor.sweep()


Scenario = Callable[[Slow], Awaitable[None]]


def served(**limits: Any) -> Callable[[Scenario], Callable[[Run, Clock], None]]:
    """Make a test of a scenario: with a server of these limits, on each event loop."""
    given: dict[str, Any] = {
        "stall_seconds": PERIOD,
        "least_bytes_per_second": LEAST,
        "bytes_per_key": IN_ALL,
        "bytes_in_all": IN_ALL,
        "room_seconds": 3600.0,
    }

    def decorate(scenario: Scenario) -> Callable[[Run, Clock], None]:
        async def play(clock: Clock) -> None:
            slow, app = Slow(SendMonitor(SendLimits(**given | limits)), clock), web.Application()
            app[SEND_MONITOR] = slow.monitor
            app.router.add_get("/{key}", slow.answer)
            async with listening(app, ServiceSettings(deadline_seconds=1.0)) as slow.port:
                await scenario(slow)
                for _, writer in slow.opened:
                    writer.close()

        return lambda run, clock: run(play(clock))

    return decorate


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


async def read(streams: Streams, slow: Slow, count: int) -> None:
    """Read so many bytes, and wait until the server knows of it."""
    acknowledged = partial(acknowledged_bytes, slow.connection)
    before = acknowledged()
    await streams[0].readexactly(count)
    await until(lambda: acknowledged() - before >= count // 2)


@served()
async def test_a_client_that_reads_nothing_is_cut_off(slow: Slow) -> None:
    streams = await slow.ask("a")
    slow.pass_period()
    assert await is_cut(streams)
    await until(lambda: slow.monitor.unsent_bytes == 0)


@served()
async def test_a_client_that_reads_little_but_enough_gets_everything(slow: Slow) -> None:
    streams = await slow.ask("a")
    slow.monitor.sweep()
    for _ in range(5):
        # Far from all that waits for it.
        await read(streams, slow, 4_000_000)
        slow.clock.now += PERIOD
        slow.monitor.sweep()
    assert not await is_cut(streams, 5 * 4_000_000)


@served(least_bytes_per_second=1_000_000)
async def test_a_client_that_reads_too_little_is_cut_off(slow: Slow) -> None:
    streams = await slow.ask("a")
    slow.monitor.sweep()
    await read(streams, slow, 4_000_000)
    slow.clock.now += PERIOD
    slow.monitor.sweep()
    assert await is_cut(streams)


@served()
async def test_requests_behind_an_unread_response_are_not_served(slow: Slow) -> None:
    streams = await slow.ask(*"aaaa")
    slow.pass_period()
    assert await is_cut(streams)
    assert slow.asked == 1


@served()
async def test_a_connection_that_is_closed_with_unread_bytes_is_cut_off(slow: Slow) -> None:
    streams = await slow.ask("a")
    # As at the end of its keep-alive time.
    slow.connection.force_close()
    slow.pass_period()
    await until(lambda: slow.monitor.unsent_bytes == 0)
    assert await is_cut(streams)


@served()
async def test_an_idle_client_that_has_read_everything_stays(slow: Slow) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", slow.port)
    for _ in range(2):
        writer.write(b"GET /small HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"x" * 100)
        slow.pass_period()
    writer.close()


@served()
async def test_a_key_that_is_withdrawn_receives_nothing_more_and_others_do(slow: Slow) -> None:
    withdrawn, other = await slow.ask("a"), await slow.ask("b")
    slow.withdrawn.add("a")
    slow.monitor.sweep()
    assert [await is_cut(streams) for streams in (withdrawn, other)] == [True, False]
    await until(lambda: slow.monitor.unsent_bytes == 0)


@served()
async def test_the_refusal_of_a_withdrawn_key_is_sent(slow: Slow) -> None:
    slow.withdrawn.add("refused")
    streams = await slow.ask("refused")
    slow.monitor.sweep()
    assert not await is_cut(streams)


@served()
async def test_what_only_the_kernel_still_has_is_discarded(slow: Slow) -> None:
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CLIENT_BUFFER_BYTES)
        client.connect(("127.0.0.1", slow.port))
        client.sendall(b"GET /medium HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: any(connection.key_id == "medium" for connection in sending_connections(slow.monitor)))
        connection = slow.connection
        await until(lambda: not connection.is_sending)
        assert buffered_bytes(connection) == 0
        slow.withdrawn.add("medium")
        slow.monitor.sweep()
        await until(lambda: not sending_connections(slow.monitor))
        assert await asyncio.to_thread(_received, client) < SIZES["medium"]


def _received(client: socket.socket) -> int:
    """Read to the end, which must be an error, and return the number of bytes."""
    count = 0
    try:
        while piece := client.recv(65_536):
            count += len(piece)
    except ConnectionResetError:
        return count
    raise AssertionError("The connection ended as after a whole response.")


@served()
async def test_a_connection_without_a_response_stays_when_its_key_is_withdrawn(slow: Slow) -> None:
    """Its next request is refused; a proxy may send another key's."""
    reader, writer = await asyncio.open_connection("127.0.0.1", slow.port)
    for _ in range(2):
        writer.write(b"GET /small HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"x" * 100)
        slow.withdrawn.add("small")
        await until(lambda: not has_more(slow.connection))
        slow.monitor.sweep()
    writer.close()


@served(bytes_per_key=3 * len(BODY), room_seconds=0.0)
async def test_a_key_with_too_many_unread_bytes_is_refused(slow: Slow) -> None:
    room = slow.monitor.wait_for_room
    await room("a", 10 * len(BODY))
    for _ in range(2):
        await slow.ask("a")
    await room("a")
    await room("a", len(BODY))
    with pytest.raises(UnreadResponses):
        await room("a", len(BODY) + 1)
    await slow.ask("a")
    with pytest.raises(UnreadResponses):
        await room("a")
    await room("b", 10 * len(BODY))


@served(bytes_per_key=len(BODY))
async def test_a_request_waits_until_its_key_has_read_a_response(slow: Slow) -> None:
    streams = await slow.ask("a")
    waiting = [asyncio.create_task(slow.monitor.wait_for_room("a")) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    assert not await is_cut(streams)
    await asyncio.gather(*waiting)


@served()
async def test_an_unread_response_counts_as_a_whole(slow: Slow) -> None:
    """What the kernel has taken of it stays in memory: its parts are slices of one buffer."""
    await slow.ask("a")
    assert buffered_bytes(slow.connection) < len(BODY)
    assert slow.monitor.unsent_bytes == len(BODY)


@served(bytes_in_all=int(2.5 * len(BODY)))
async def test_beyond_the_bytes_in_all_the_key_with_most_loses_its_oldest_connection(slow: Slow) -> None:
    first, other = await slow.ask("a"), await slow.ask("b")
    second = await slow.ask("a", is_kept=False)
    assert await is_cut(first)
    await until(lambda: slow.monitor.unsent_bytes < 2.5 * len(BODY))
    assert [await is_cut(streams) for streams in (second, other)] == [False, False]
