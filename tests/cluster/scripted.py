"""A server on a real port that does with each connection what a script says."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from elastic_transport import NodeConfig

from cluster.node import ReadingNode

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable
    from typing import Any

    Script = Callable[["Connection"], Awaitable[None]]


@dataclass
class Connection:
    """One connection as a script sees it."""

    server: Scripted
    number: int  # 1 for the first that was accepted
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def request(self) -> bytes:
        """Return the next whole request; raise IncompleteReadError at the end of the connection."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        self.server.requests.append(head + await self.reader.readexactly(length))
        return self.server.requests[-1]

    async def send(self, sent: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(sent)
        await self.writer.drain()

    def reset(self) -> None:
        """End the connection without order."""
        self.writer.transport.abort()


@dataclass
class Scripted:
    """The server and what it has seen."""

    script: Script
    port: int = 0
    accepted: int = 0
    open: int = 0
    most_open: int = 0
    requests: list[bytes] = field(default_factory=list)
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    listening: asyncio.Server | None = None

    def node(self, scheme: str = "http", **options: Any) -> ReadingNode:
        """Return a node that asks this server; `localhost` is what certificates of tests are for."""
        host = "127.0.0.1" if scheme == "http" else "localhost"
        return ReadingNode(NodeConfig(scheme, host, self.port, **options))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Let the script have a connection; then close it."""
        self.tasks.add(asyncio.current_task())  # type: ignore[arg-type]  # a task by now
        self.accepted, self.open = self.accepted + 1, self.open + 1
        self.most_open = max(self.most_open, self.open)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self.script(Connection(self, self.accepted, reader, writer))
        finally:
            self.open -= 1
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    def refuse(self) -> None:
        """Take no more connections."""
        if self.listening is not None:
            self.listening.close()

    async def stop(self) -> None:
        """End every script."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@asynccontextmanager
async def scripted(script: Script, certificate: ssl.SSLContext | None = None) -> AsyncIterator[Scripted]:
    """Serve a script."""
    state = Scripted(script)
    state.listening = server = await asyncio.start_server(state.serve, "127.0.0.1", 0, ssl=certificate)
    state.port = server.sockets[0].getsockname()[1]
    try:
        yield state
    finally:
        server.close()
        await state.stop()
        await server.wait_closed()


def answering(*answers: bytes) -> Script:
    """Return the script that answers the requests of a connection in turn, the last of them forever."""

    async def script(connection: Connection) -> None:
        for answer in answers:
            await connection.request()
            await connection.send(answer)
        while await connection.request():
            await connection.send(answers[-1])

    return script


def silent(*, after: bytes = b"") -> Script:
    """Return the script that reads a request, sends `after` and then waits for the other side's end."""

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(after)
        await connection.reader.read()

    return script


def ending_on(first: bytes, *, last: int = 1) -> Script:
    """Return the script that answers once; up to the connection `last` a second request finds its end instead."""

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(first)
        while await connection.request():
            if connection.number <= last:
                return
            await connection.send(first)

    return script
