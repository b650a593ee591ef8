"""Graceful shutdown: every response announces it, and only idle connections are closed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from cluster.connection import ConnectionSettings
from cluster.settings import SettingError
from service.app import create_app
from service.http.connection import ServiceRunner
from service.settings import ServiceSettings
from tests.service.stand_in import StandIn
from tests.waiting import until

_GOOD = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
SENT = {
    "live": _GOOD,
    "ready": b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n",
    "without a key": b"GET /v1/companies HTTP/1.1\r\nHost: x\r\n\r\n",
    "no such path": b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n",
    "no such method": b"DELETE /livez HTTP/1.1\r\nHost: x\r\n\r\n",
    "options": b"OPTIONS /livez HTTP/1.1\r\nHost: x\r\n\r\n",
    "no HTTP": b"hello\r\n\r\n",
    "asked to keep it": b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
}


async def _slow(_: web.Request) -> web.Response:
    await asyncio.sleep(0.3)
    return web.Response(text="done")


async def _never(_: web.Request) -> web.Response:
    await asyncio.Event().wait()
    raise AssertionError


def _runner(url: str = "http://127.0.0.1:9", keepalive_seconds: float = 75.0) -> ServiceRunner:
    # What has not ended a second after that is given up.
    settings = ServiceSettings(deadline_seconds=60.0, keepalive_seconds=keepalive_seconds)
    app = create_app(settings, ConnectionSettings(url=(url,)))
    app.router.add_get("/slow", _slow)
    app.router.add_get("/never", _never)
    return ServiceRunner(app, settings)


@pytest.fixture
async def runner() -> AsyncIterator[ServiceRunner]:
    """A running service without an Elasticsearch."""
    runner = _runner()
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner
    await runner.cleanup()


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, sent: bytes) -> bytes:
        """Send a request and return the head of its answer; the body is read too."""
        self.writer.write(sent)
        return await self.answer()

    async def answer(self) -> bytes:
        """Return the head of the next answer."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        if b"content-length: " in head:
            await self.reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        return head

    async def is_at_end(self) -> bool:
        """Wait for whatever comes next; return whether it is the end. Raise TimeoutError if nothing comes."""
        async with asyncio.timeout(60.0):
            return await self.reader.read(1) == b""


Connect = Callable[[], Awaitable["Client"]]


@pytest.fixture
async def connect(runner: ServiceRunner) -> AsyncIterator[Connect]:
    """Open connections that the service has accepted."""
    clients: list[Client] = []

    async def connected() -> Client:
        before = len(_open(runner))
        clients.append(Client(*await asyncio.open_connection("127.0.0.1", runner.addresses[0][1])))
        await until(lambda: len(_open(runner)) > before)
        return clients[-1]

    yield connected
    for client in clients:
        client.writer.close()


def _open(runner: ServiceRunner) -> list[web.RequestHandler]:
    assert runner.server is not None
    return runner.server.connections


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
async def test_while_draining_every_answer_is_the_last_of_its_connection(
    runner: ServiceRunner, connect: Connect, sent: bytes
) -> None:
    client = await connect()
    assert b"connection: close" not in await client.ask(_GOOD)
    runner.drain()
    assert b"connection: close" in await client.ask(sent)
    assert await client.is_at_end()


async def test_a_response_in_progress_when_draining_begins_is_the_last_one(
    runner: ServiceRunner, connect: Connect
) -> None:
    client = await connect()
    client.writer.write(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.sleep(0.05)
    runner.drain()
    assert b"connection: close" in await client.answer()


async def test_idle_connections_are_closed_and_nothing_else_is_cut(runner: ServiceRunner, connect: Connect) -> None:
    idle, busy, halfway, new = [await connect() for _ in range(4)]
    for client in (idle, busy, halfway):
        await client.ask(_GOOD)
    busy.writer.write(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
    halfway.writer.write(_GOOD[:12])
    await asyncio.sleep(0.05)
    runner.drain()
    await runner.stop_listening([])
    finishing = asyncio.create_task(runner.wait_closed())
    assert await idle.is_at_end()
    assert b" 200 " in await new.ask(_GOOD)
    assert b" 200 " in await halfway.ask(_GOOD[12:])
    assert b" 200 " in await busy.answer()
    await finishing
    assert _open(runner) == []


async def test_idle_connections_are_kept_for_the_given_time(runner: ServiceRunner, connect: Connect) -> None:
    client = await connect()
    await client.ask(_GOOD)
    runner.drain()
    finishing = asyncio.create_task(runner.wait_closed(idle_seconds=60))
    await asyncio.sleep(0.1)
    assert b"connection: close" in await client.ask(_GOOD)
    await finishing


async def test_a_connection_without_a_request_is_closed_after_the_time_of_the_setting() -> None:
    """A balancer that keeps its connections longer sends requests to closed ones."""
    runner = _runner(keepalive_seconds=0.05)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    client = Client(*await asyncio.open_connection(*runner.addresses[0]))
    assert b" 200 " in await client.ask(_GOOD)
    assert await client.is_at_end()
    client.writer.close()
    await runner.cleanup()
    # That of nginx and of Amazon's Application Load Balancer.
    assert ServiceSettings().keepalive_seconds > 60
    with pytest.raises(SettingError, match="BROKERAGE_KEEPALIVE_SECONDS is 0: use more than 0"):
        ServiceSettings(keepalive_seconds=0.0)


async def test_a_request_that_never_ends_does_not_hold_it_up_for_ever(runner: ServiceRunner, connect: Connect) -> None:
    client = await connect()
    client.writer.write(b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.sleep(0.05)
    runner.longest_drain_seconds = 0.5
    runner.drain()
    await runner.wait_closed()
    assert len(_open(runner)) == 1


async def test_it_asks_itself_whether_it_is_ready_before_it_listens(stand_in: StandIn) -> None:
    for url, ready in ((stand_in.url, True), ("http://127.0.0.1:9", False)):
        runner = _runner(url)
        await runner.setup()
        assert await runner.is_ready() is ready
        await runner.cleanup()
