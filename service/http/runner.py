"""Run the application on its sockets, with a graceful shutdown that loses no request."""

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from aiohttp import web

from service.http.connection import CONNECTION_OPTIONS, HttpConnection, HttpServer

# Time to send a response that was ready at its deadline.
_MARGIN_SECONDS = 1.0
_POLL_SECONDS = 0.02


def _duplicate_handle(listening: socket.socket) -> socket.socket:
    """Return a second handle of a socket; `socket.dup` would make it blocking, in every process that shares it."""
    handle = socket.socket(fileno=os.dup(listening.fileno()))
    handle.settimeout(0)
    return handle


class ServiceRunner(web.AppRunner):
    """An application runner with `HttpConnection`s."""

    def __init__(self, app: web.Application, deadline_seconds: float) -> None:
        """Set the connection options; a client that disconnects cancels its handler."""
        super().__init__(
            app,
            access_log=None,
            handler_cancellation=True,
            # Requests have had their time in `wait_closed` before.
            shutdown_timeout=_MARGIN_SECONDS,
            **CONNECTION_OPTIONS,
        )
        self._drain_seconds = deadline_seconds + _MARGIN_SECONDS

    def drain(self) -> None:
        """Send `Connection: close` with every response from now on, and close the connection after it."""
        if isinstance(self.server, HttpServer):
            self.server.draining = True

    async def stop_listening(self, sockets: Sequence[socket.socket]) -> None:
        """Close the listening sockets, and accept the connections in their backlog, which would be reset otherwise."""
        with ExitStack() as stack:
            handles = [stack.enter_context(_duplicate_handle(listening)) for listening in sockets]
            for site in self.sites:
                await site.stop()
            for listening in handles:
                await self._accept_backlog(listening)

    async def _accept_backlog(self, listening: socket.socket) -> None:
        if self.server is None:
            return
        with suppress(BlockingIOError):
            while True:
                connection, _ = listening.accept()
                connection.settimeout(0)
                await asyncio.get_running_loop().connect_accepted_socket(self.server, connection)

    async def wait_closed(self, idle_seconds: float = 0.0) -> None:
        """Wait until all connections are closed: idle ones after `idle_seconds`, the others after their response.

        Stop waiting one request deadline, and a margin, after `idle_seconds`.
        """
        server, loop = self.server, asyncio.get_running_loop()
        idle_until = loop.time() + idle_seconds
        while server is not None and server.connections and loop.time() < idle_until + self._drain_seconds:
            for connection in server.connections:
                if isinstance(connection, HttpConnection) and loop.time() >= idle_until:
                    connection.close_idle()
            await asyncio.sleep(_POLL_SECONDS)

    async def is_ready(self) -> bool:
        """Request this process's own `/readyz` over a socket pair, so that it need not listen yet."""
        server, loop = self.server, asyncio.get_running_loop()
        if server is None:
            return False
        client, accepted = socket.socketpair()
        accepted.settimeout(0)
        await loop.connect_accepted_socket(server, accepted)
        reader, writer = await asyncio.open_connection(sock=client)
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        response = await reader.read()
        writer.close()
        return response.startswith(b"HTTP/1.1 200 ")

    async def _make_server(self) -> web.Server:
        return HttpServer.of(await super()._make_server(), self.app)
