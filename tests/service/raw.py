"""Requests byte by byte, to the connections that serve: what a client would tidy is sent as it stands."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiohttp import web
from multidict import CIMultiDict

from cluster.connection import ConnectionSettings
from service.app import create_app
from service.console.serving import operators_app
from service.protocol import ServiceRunner
from service.settings import ServiceSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

_PATIENCE_SECONDS = 30


@dataclass(frozen=True)
class Answer:
    """One answer as it came."""

    status: int
    headers: CIMultiDict[str]
    body: bytes


@asynccontextmanager
async def serving(url: str, *, of_metrics: bool = False, **settings: Any) -> AsyncIterator[int]:
    """Serve over an engine with the service's own connections; give the port, or that of the metrics."""
    chosen = ServiceSettings(shared_seconds=0.0, **settings)
    app = create_app(chosen, ConnectionSettings(url=(url,)))
    async with AsyncExitStack() as stack:
        port = await _port(stack, ServiceRunner(app, chosen))
        yield await _port(stack, ServiceRunner(operators_app(app), chosen)) if of_metrics else port


async def _port(stack: AsyncExitStack, runner: ServiceRunner) -> int:
    stack.push_async_callback(runner.cleanup)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return int(runner.addresses[0][1])


def request(path: str, method: str = "GET", headers: Mapping[str, str] | None = None, body: str = "") -> bytes:
    """Return a request after whose answer the connection is closed."""
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", body]).encode("latin-1")


async def exchange(port: int, *sent: bytes) -> list[Answer]:
    """Send pieces, one packet each, and return all answers that come until the other side closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in sent:
        writer.write(piece)
        await asyncio.sleep(0.02 if len(sent) > 1 else 0)
    async with asyncio.timeout(_PATIENCE_SECONDS):
        received = await reader.read()
    writer.close()
    return _answers(received, is_head=sent[0].startswith(b"HEAD "))


async def ask(port: int, *sent: bytes) -> Answer:
    """Return the only answer."""
    (answer,) = await exchange(port, *sent)
    return answer


def _answers(received: bytes, *, is_head: bool) -> list[Answer]:
    answers = []
    while received:
        head, _, received = received.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = CIMultiDict((name, value) for name, _, value in (line.partition(": ") for line in lines))
        status = int(first.split()[1])
        length = 0 if is_head or status in {204, 304} else int(headers["Content-Length"])
        answers.append(Answer(status, headers, received[:length]))
        received = received[length:]
    return answers
