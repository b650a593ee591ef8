"""A server on a real port that handles each connection as a script says."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from elastic_transport import NodeConfig

from cluster.http.nodes import ReadingNode

HOST = "127.0.0.1"


@dataclass
class Connection:
    """One connection as a script sees it."""

    server: Server
    number: int  # 1 for the first that was accepted
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def request(self) -> bytes:
        """Return the next complete request, and keep it; raise IncompleteReadError at the end of the connection."""
        self.server.requests.append(await self.read())
        return self.server.requests[-1]

    async def read(self) -> bytes:
        """Return the next complete request."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0] or 0)
        return head + await self.reader.readexactly(length)

    async def send(self, sent: bytes | memoryview) -> None:
        self.writer.write(sent)
        await self.writer.drain()

    def reset(self) -> None:
        """Drop the connection without a shutdown."""
        self.writer.transport.abort()


Script = Callable[["Connection"], Awaitable[None]]


@dataclass
class Server:
    """The server and what it has seen."""

    script: Script
    certificate: ssl.SSLContext | None = None
    port: int = 0
    accepted: int = 0
    open: int = 0
    most_open: int = 0
    requests: list[bytes] = field(default_factory=list)
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)  # the scripts
    opening: set[asyncio.Task[Any]] = field(default_factory=set)
    listening: socket.socket | None = None

    @property
    def url(self) -> str:
        """Its address; `localhost` is the name in the certificates of tests."""
        return f"http://{HOST}:{self.port}" if self.certificate is None else f"https://localhost:{self.port}"

    def node(self, scheme: str = "http", **options: Any) -> ReadingNode:
        """Return a node of the Elasticsearch client that sends its requests to this server."""
        return ReadingNode(NodeConfig(scheme, HOST if scheme == "http" else "localhost", self.port, **options))

    async def start(self) -> None:
        """Listen, after a refusal on the same port as before."""
        if self.listening is None:
            self.listening = socket.create_server((HOST, self.port))
            self.listening.setblocking(False)
            self.port = self.listening.getsockname()[1]
            asyncio.get_running_loop().add_reader(self.listening, self._accept, self.listening)

    def refuse(self) -> None:
        """Accept no more connections."""
        if self.listening is not None:
            asyncio.get_running_loop().remove_reader(self.listening)
            self.listening.close()
            self.listening = None

    async def stop(self) -> None:
        """End every script."""
        await asyncio.gather(*self.opening)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await asyncio.sleep(0)  # until what the tasks have closed is closed

    def _accept(self, listening: socket.socket) -> None:
        """Accept a connection. A server of asyncio loses one that it is accepting while it is closed (until 3.13)."""
        with contextlib.suppress(BlockingIOError):
            accepted, _ = listening.accept()
            _keep(asyncio.create_task(self._open(accepted)), self.opening)

    async def _open(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._begin)
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, accepted, ssl=self.certificate)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        _keep(task, self.tasks)
        # It may be cancelled before it begins.
        task.add_done_callback(lambda _: writer.close())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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


def _keep(task: asyncio.Task[Any], tasks: set[asyncio.Task[Any]]) -> None:
    tasks.add(task)
    task.add_done_callback(tasks.discard)


@asynccontextmanager
async def serving(script: Script, certificate: ssl.SSLContext | None = None, port: int = 0) -> AsyncIterator[Server]:
    server = Server(script, certificate, port)
    await server.start()
    try:
        yield server
    finally:
        server.refuse()
        await server.stop()


def answering(*answers: bytes) -> Script:
    """Return a script that sends one answer per request of a connection, then repeats the last."""

    async def script(connection: Connection) -> None:
        for answer in answers:
            await connection.request()
            await connection.send(answer)
        while await connection.request():
            await connection.send(answers[-1])

    return script


def silent(*, after: bytes = b"", is_half_closed: bool = False) -> Script:
    """Return a script that reads a request, sends `after`, then waits until the client closes."""

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(after)
        if is_half_closed:
            connection.writer.write_eof()
        await connection.reader.read()

    return script


def ending_on(first: bytes, *, last: int = 1) -> Script:
    """Return a script that answers once; the first `last` connections then close on their second request."""

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(first)
        while await connection.request():
            if connection.number <= last:
                return
            await connection.send(first)

    return script
