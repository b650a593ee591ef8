"""Runs the application: listens, passes its sockets on, and parts from clients so that none loses a request."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from aiohttp import web

from service.wire import OPTIONS, Connection, Server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.settings import ServiceSettings

# What is answered in time is sent within this: the rest of a draining process's patience.
_MARGIN_SECONDS = 1.0
_LOOK_SECONDS = 0.02


def _another(listening: socket.socket) -> socket.socket:
    """Return another handle of a socket. Its own `dup` would make it wait, in every process that has it."""
    handle = socket.socket(fileno=os.dup(listening.fileno()))
    handle.settimeout(0)
    return handle


class ServiceRunner(web.AppRunner):
    """Runs the application behind connections that never answer in plain text."""

    def __init__(self, app: web.Application, settings: ServiceSettings) -> None:
        """Fix the options of every connection; a client that leaves cancels its handler."""
        super().__init__(
            app,
            access_log=None,
            handler_cancellation=True,
            # What has not ended by then was given its time in `finish`.
            shutdown_timeout=_MARGIN_SECONDS,
            **OPTIONS,
        )
        self._patience = settings.deadline_seconds + _MARGIN_SECONDS

    def drain(self) -> None:
        """From now on every answer carries `Connection: close`, and its connection is closed behind it."""
        if isinstance(self.server, Server):
            self.server.draining = True

    async def stop_listening(self, sockets: Sequence[socket.socket]) -> None:
        """Let go of what it listens on, and take in what waits there: it would be reset if nobody else listened."""
        with ExitStack() as stack:
            last = [stack.enter_context(_another(listening)) for listening in sockets]
            for site in self.sites:
                await site.stop()
            for listening in last:
                await self._take_in(listening)

    async def _take_in(self, listening: socket.socket) -> None:
        if self.server is None:
            return
        with suppress(BlockingIOError):
            while True:
                connection, _ = listening.accept()
                connection.settimeout(0)
                await asyncio.get_running_loop().connect_accepted_socket(self.server, connection)

    async def finish(self, idle_seconds: float = 0.0) -> None:
        """Wait until all connections are closed: idle ones after so many seconds, the others behind their answer.

        Return all the same when the deadline of a request has passed since then, and a margin.
        """
        server, loop = self.server, asyncio.get_running_loop()
        kept_until = loop.time() + idle_seconds
        while server is not None and server.connections and loop.time() < kept_until + self._patience:
            for connection in server.connections:
                if isinstance(connection, Connection) and loop.time() >= kept_until:
                    connection.close_idle()
            await asyncio.sleep(_LOOK_SECONDS)

    async def is_ready(self) -> bool:
        """Ask this process's own `/readyz`, whether or not it listens yet."""
        server, loop = self.server, asyncio.get_running_loop()
        if server is None:
            return False
        ours, theirs = socket.socketpair()
        theirs.settimeout(0)
        await loop.connect_accepted_socket(server, theirs)
        reader, writer = await asyncio.open_connection(sock=ours)
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
        return answer.startswith(b"HTTP/1.1 200 ")

    async def _make_server(self) -> web.Server:
        return Server.of(await super()._make_server(), self.app)
