"""Raw HTTP requests to the service's own connections, without the normalization of a client."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from multidict import CIMultiDict

from cluster.connection import ConnectionSettings
from service.app import create_app, create_operators_app
from service.http.connection import ServiceRunner
from service.settings import ServiceSettings

_PATIENCE_SECONDS = 30


@dataclass(frozen=True)
class RawResponse:
    """A response as received."""

    status: int
    headers: CIMultiDict[str]
    body: bytes


@asynccontextmanager
async def serve_raw(
    url: str, *, of_metrics: bool = False, address: str = "127.0.0.1", **settings: Any
) -> AsyncIterator[int]:
    """Serve over an Elasticsearch with the service's own connections; yield the port, or that of the metrics."""
    chosen = ServiceSettings(shared_seconds=0.0, **settings)
    app = create_app(chosen, ConnectionSettings(url=(url,)))
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(listening(app, chosen, host=address))
        yield await stack.enter_async_context(listening(create_operators_app(app), chosen)) if of_metrics else port


@asynccontextmanager
async def listening(
    app: web.Application, settings: ServiceSettings, port: int = 0, host: str = "127.0.0.1"
) -> AsyncIterator[int]:
    """Serve an application with the service's own connections; yield the port."""
    runner = ServiceRunner(app, settings)
    try:
        await runner.setup()
        await web.TCPSite(runner, host, port).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def request(path: str, method: str = "GET", headers: Mapping[str, str] | None = None, body: str = "") -> bytes:
    """Return a request that closes the connection after its response."""
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", body]).encode("latin-1")


async def exchange(port: int, *sent: bytes, address: str = "127.0.0.1") -> list[RawResponse]:
    """Send pieces, one packet each; return all responses until the server closes."""
    loop = asyncio.get_running_loop()
    with socket.create_connection((address, port)) as connection:
        connection.setblocking(False)
        async with asyncio.timeout(_PATIENCE_SECONDS):
            for piece in sent:
                await loop.sock_sendall(connection, piece)
                await asyncio.sleep(0.02 if len(sent) > 1 else 0)
            received = await _read_all(connection)
    return _answers(received, is_head=sent[0].startswith(b"HEAD "))


async def _read_all(connection: socket.socket) -> bytes:
    """Return what arrives until the server closes, which resets the connection if it left bytes unread.

    The streams of asyncio drop what they have received when that happens.
    """
    received = bytearray()
    with suppress(ConnectionResetError):
        while piece := await asyncio.get_running_loop().sock_recv(connection, 65_536):
            received += piece
    return bytes(received)


async def exchange_one(port: int, *sent: bytes) -> RawResponse:
    """Return the only response."""
    (answer,) = await exchange(port, *sent)
    return answer


def _answers(received: bytes, *, is_head: bool) -> list[RawResponse]:
    answers = []
    while received:
        head, _, received = received.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = CIMultiDict((name, value) for name, _, value in (line.partition(": ") for line in lines))
        status = int(first.split()[1])
        length = 0 if is_head or status in {204, 304} else int(headers["Content-Length"])
        answers.append(RawResponse(status, headers, received[:length]))
        received = received[length:]
    return answers
