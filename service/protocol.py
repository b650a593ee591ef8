"""The HTTP layer below the application: what it cannot parse is answered with a problem document too.

aiohttp answers such requests itself, in plain text that repeats the line at fault, and logs the line: a key in the
query would be in both. The seams used are aiohttp's inner ones; `tests/service/test_protocol.py` tells when they move.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import select
import socket
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from aiohttp import web

from service.errors import ApiError, InternalError, MalformedRequest
from service.problems import of_framework, problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.settings import ServiceSettings

# Longer lines than the service's own limit on URLs reach it, so that it can answer 414 by itself.
_LONGEST_LINE_BYTES = 65_536
_KEEPALIVE_SECONDS = 75

# What is answered in time is sent within this: the rest of a draining process's patience.
_MARGIN_SECONDS = 1.0
# A connection that was just accepted brings its first request very soon.
_FIRST_REQUEST_SECONDS = 1.0
_LOOK_SECONDS = 0.02

_log = logging.getLogger("service")


class _Connection(web.RequestHandler):
    """One connection of a client."""

    __slots__ = ("_accepted", "_halfway")

    _manager: _Server | None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note of the time."""
        self._accepted = self._loop.time()
        self._halfway = False
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Take note of a request that is not whole yet."""
        super().data_received(data)
        self._halfway = self._waits()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send an answer; every one passes here. While draining it is the last one of its connection."""
        if isinstance(resp, web.HTTPException):
            resp = problem(of_framework(resp), request.path, secrets.token_hex(8))
        if self._manager is not None and self._manager.draining:
            resp.force_close()
            # Said even where HTTP/1.0 implies it: what could not be parsed is answered by that version.
            resp.headers["Connection"] = "close"
        return await super().finish_response(request, resp, start_time)

    def close_idle(self) -> None:
        """Close the connection unless a request is answered, has arrived, is arriving or is about to."""
        if self._waits() and not (self._halfway or self._is_new() or self._has_unread()):
            self.force_close()

    def _waits(self) -> bool:
        return self._waiter is not None and not self._waiter.done()

    def _is_new(self) -> bool:
        return not self._request_count and self._loop.time() < self._accepted + _FIRST_REQUEST_SECONDS

    def _has_unread(self) -> bool:
        """Whether the kernel holds what the loop has not come to read."""
        if self.transport is None:
            return False
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it repeats what the client sent
    ) -> web.StreamResponse:
        """Answer what no middleware sees, and close the connection."""
        request_id = secrets.token_hex(8)
        # Neither text nor traceback: both hold the request line.
        _log.warning("request %s was refused below the application: %s", request_id, type(exc).__name__)
        if request.writer.output_size > 0:
            raise ConnectionError("The answer has begun, no other can follow it.")
        error: ApiError = MalformedRequest() if status < 500 else InternalError("a failure below the application")
        response = problem(error, "", request_id)
        response.force_close()
        return response


class _Server(web.Server):
    """Opens a `_Connection` for each client. Unlike aiohttp's own it does not drop options that it does not know."""

    draining = False

    def __call__(self) -> web.RequestHandler:
        """Return the handler of a new connection."""
        return _Connection(self, loop=self._loop, **self._kwargs)


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
            keepalive_timeout=_KEEPALIVE_SECONDS,
            # What has not ended by then was given its time in `finish`.
            shutdown_timeout=_MARGIN_SECONDS,
            max_line_size=_LONGEST_LINE_BYTES,
        )
        self._patience = settings.deadline_seconds + _MARGIN_SECONDS

    def drain(self) -> None:
        """From now on every answer carries `Connection: close`, and its connection is closed behind it."""
        if isinstance(self.server, _Server):
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
                if isinstance(connection, _Connection) and loop.time() >= kept_until:
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
        made = await super()._make_server()
        options: dict[str, Any] = made._kwargs  # noqa: SLF001 - see the module's text
        return _Server(
            made.request_handler,
            request_factory=made.request_factory,
            handler_cancellation=made.handler_cancellation,
            **options,
        )
