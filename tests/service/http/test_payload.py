"""Bodies in parts, over real HTTP on both event loops: byte-equal, never joined when large, released once sent."""

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientSession, web

from service.http.responses import (
    _MIN_SCATTERED_BYTES,
    _WRITTEN_BYTES,
    BufferListPayload,
    JsonBytes,
    json_array,
    json_response,
)
from service.settings import ServiceSettings
from tests.internals import Internals
from tests.loops import Run
from tests.service.raw_http import listening
from tests.waiting import until

LIMIT = _MIN_SCATTERED_BYTES
RECORD = b'{"a":"' + b"x" * 6_000 + b'"}'


def views(buffer: bytearray, count: int) -> list[JsonBytes]:
    """Return the parts of an array whose records lie in the buffer as they do in an answer of Elasticsearch."""
    for at in range(count):
        buffer += b"\t%b\t%d" % (RECORD, at)
    view, at = memoryview(buffer), 0
    found: list[JsonBytes] = []
    while (at := buffer.find(b"\t", at)) >= 0:
        found.append(view[at + 1 : at + 1 + len(RECORD)])
        at += len(RECORD) + 2
    return json_array(found, b'{"Listings":', b"}")


class Served:
    """An address that answers with a body in parts, and what became of it."""

    def __init__(self, bodies: list[list[JsonBytes]]) -> None:
        self.bodies = bodies
        self.sent = 0
        self.asked = 0
        self.port = 0

    async def answer(self, _: web.Request) -> web.Response:
        """Send the next body."""
        self.asked += 1
        response = json_response(self.bodies.pop(0))
        assert isinstance(response.body, BufferListPayload)
        response.body.on_sent = self._count
        return response

    def _count(self) -> None:
        self.sent += 1


@asynccontextmanager
async def serving(*bodies: list[JsonBytes]) -> AsyncIterator[Served]:
    """Serve with the service's own connections."""
    served, app = Served(list(bodies)), web.Application()
    del bodies  # or they would be held here
    app.router.add_get("/", served.answer)
    async with listening(app, ServiceSettings(deadline_seconds=1.0)) as served.port:
        yield served


@pytest.mark.parametrize("size", [2, 100, LIMIT - 1, LIMIT, LIMIT + 1, 3_000_000])
@pytest.mark.parametrize("pieces", [1, 2, 401])
def test_a_body_of_any_size_arrives_as_it_is(run: Run, size: int, pieces: int) -> None:
    body = (bytes(range(256)) * (size // 256 + 1))[:size]
    step = -(-size // pieces)
    cut: list[JsonBytes] = [memoryview(body)[at : at + step] for at in range(0, size, step)]

    async def scenario() -> None:
        async with serving(cut, [body], cut) as served, ClientSession(f"http://127.0.0.1:{served.port}") as client:
            for _ in range(2):
                async with client.get("/") as response:
                    assert await response.read() == body
                    assert response.headers["Content-Length"] == str(size)
                    assert response.content_type == "application/json"
            async with client.head("/") as response:
                assert (response.headers["Content-Length"], await response.read()) == (str(size), b"")
            assert served.asked == 3

    run(scenario())


@pytest.mark.parametrize(("count", "joins"), [(1, 1), (200, 0)])
def test_only_a_small_body_is_joined(run: Run, monkeypatch: pytest.MonkeyPatch, count: int, joins: int) -> None:
    joined, real = list[int](), BufferListPayload.join

    def noting(self: BufferListPayload) -> bytes:
        joined.append(1)
        return real(self)

    monkeypatch.setattr(BufferListPayload, "join", noting)

    async def scenario() -> None:
        async with serving(views(bytearray(), count)) as served:
            url = f"http://127.0.0.1:{served.port}"
            async with ClientSession() as client, client.get(url) as response:
                assert await response.json() == {"Listings": [{"a": "x" * 6_000}] * count}
            await until(lambda: served.sent == 1)

    run(scenario())
    assert len(joined) == joins


def test_a_body_is_released_when_it_is_sent_though_the_client_stays(run: Run) -> None:
    async def scenario() -> None:
        buffer = bytearray()
        async with serving(views(buffer, 200)) as served, ClientSession() as client:
            async with client.get(f"http://127.0.0.1:{served.port}") as response:
                await response.read()
            await until(lambda: served.sent == 1)
            await until(lambda: is_released(buffer))

    run(scenario())


def is_released(buffer: bytearray) -> bool:
    """Whether no part of a buffer is referenced any more; empty it then."""
    gc.collect()
    try:
        buffer.clear()
    except BufferError:
        return False
    return True


async def reading_slowly(port: int) -> tuple[socket.socket, asyncio.AbstractEventLoop]:
    """Ask over a connection with hardly any room for what comes."""
    loop, narrow = asyncio.get_running_loop(), socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
    narrow.setblocking(False)
    await loop.sock_connect(narrow, ("127.0.0.1", port))
    await loop.sock_sendall(narrow, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    return narrow, loop


def test_a_slow_reader_gets_everything_and_nothing_is_held_afterwards(run: Run) -> None:
    async def scenario() -> None:
        buffer = bytearray()
        body = views(buffer, 700)
        whole = b"".join(body)
        async with serving(body) as served:
            del body
            narrow, loop = await reading_slowly(served.port)
            await until(lambda: served.asked == 1)
            assert served.sent == 0
            narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1_000_000)
            received = bytearray()
            while come := await loop.sock_recv(narrow, 65_536):
                received += come
            assert received.partition(b"\r\n\r\n")[2] == whole
            narrow.close()
            await until(lambda: served.sent == 1)
        gc.collect()
        buffer.clear()

    run(scenario())


@pytest.mark.parametrize("read", [0, 1_000, 50_000])
def test_a_client_that_leaves_in_the_middle_does_no_harm(
    run: Run, loop_log: Callable[[], list[str]], read: int
) -> None:
    async def scenario() -> Any:
        buffer = bytearray()
        async with serving(views(buffer, 700), [b"[]"]) as served:
            narrow, loop = await reading_slowly(served.port)
            await until(lambda: served.asked == 1)
            got = 0
            while got < read:
                got += len(await loop.sock_recv(narrow, read))
            narrow.close()
            async with ClientSession() as client, client.get(f"http://127.0.0.1:{served.port}") as response:
                assert await response.read() == b"[]"
        gc.collect()
        buffer.clear()
        return served.sent

    assert run(scenario()) == 1
    assert loop_log() == []


class _Transport:
    """A transport that keeps what it is given."""

    def __init__(self) -> None:
        self.given: list[bytes] = []

    def is_closing(self) -> bool:
        return False

    def writelines(self, parts: list[JsonBytes]) -> None:
        self.given.append(b"".join(parts))


async def test_a_large_body_is_given_to_the_transport_in_pieces(internals: Internals) -> None:
    internals(background_turn_seconds=0.0)
    transport, turns = _Transport(), 0
    stream: Any = SimpleNamespace(transport=transport, send_headers=lambda: None, drain=partial(asyncio.sleep, 0))
    body = BufferListPayload([b"a" * 2_500_000, b"b", memoryview(b"c" * 900_000), b"", b"d" * 300_000])
    writing = asyncio.create_task(body.write(stream))
    while not writing.done():
        turns += 1
        await asyncio.sleep(0)
    assert b"".join(transport.given) == body.join()
    assert max(map(len, transport.given)) <= _WRITTEN_BYTES
    assert turns > len(transport.given) >= 4
