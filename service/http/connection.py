"""Client connections, below the application: replaces the responses that aiohttp sends by itself.

aiohttp responds to a request that it cannot parse with plain text that repeats the invalid line, and logs the line: a
key in the query would be in both. It also repeats an unknown `Expect`, accepts versions of HTTP that do not exist, and
names its own version. The hooks used here are internal to aiohttp; `test_malformed_requests.py` and
`test_common_headers.py` in `tests/service/http` fail when they change.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import select
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from http import HTTPStatus
from typing import Any, cast

from aiohttp import HttpVersion10, HttpVersion11, web

from service.http.problems import problem_response, release_frames
from service.http.requests import (
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    MAX_LINE_BYTES,
    MalformedRequest,
    refusal_of,
    require_continue,
)
from service.http.responses import BufferListPayload, add_common_headers
from service.http.send_monitor import SEND_MONITOR, SendMonitor
from service.settings import ServiceSettings
from service.telemetry.logs import REQUEST_OBSERVER, RequestObserver
from service.telemetry.observation import CURRENT_OBSERVATION, is_public

_CONNECTION_OPTIONS: dict[str, Any] = {
    "max_line_size": MAX_LINE_BYTES,
    "max_field_size": MAX_HEADER_BYTES,
    "max_headers": MAX_HEADERS,
    # Bodies are refused unread. For so many seconds their bytes are discarded, so that the client can read the refusal
    # before the connection is reset.
    "auto_decompress": False,
    "lingering_time": 1.0,
}
# From the first byte of a request to the end of its head: a slower client only occupies a connection.
_HEAD_TIMEOUT_SECONDS = 10.0
# Time for the first request on a new connection to arrive.
_FIRST_REQUEST_SECONDS = 1.0
_HEAD_END = b"\r\n\r\n"
_SUPPORTED_VERSIONS = frozenset({HttpVersion10, HttpVersion11})

_log = logging.getLogger("service")


class _Request(web.Request):
    """A request whose response does not name the server software."""

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        await super()._prepare_hook(response)
        # Added by aiohttp just now.
        response.headers.popall("Server", None)


class HttpConnection(web.RequestHandler):
    """One connection of a client, which reports each response to its observer, if it has one."""

    __slots__ = (
        "_accepted_at",
        "_has_partial_request",
        "_head_timer",
        "_received_end",
        "client",
        "is_sending",
        "is_withdrawn",
        "key_id",
        "monitor",
        "observer",
        "response_bytes",
    )

    _manager: HttpServer | None
    observer: RequestObserver | None
    monitor: SendMonitor | None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Record the time of the accept, and watch what the client reads."""
        self._accepted_at = self._loop.time()
        self._has_partial_request = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._received_end = b""
        self.key_id, self.response_bytes = "", 0
        self.is_sending, self.is_withdrawn = False, is_public
        # aiohttp forgets its transport when it closes it, before the client has read everything.
        self.client: asyncio.Transport | None = cast("asyncio.Transport", transport)
        if self.monitor is not None:
            self.monitor.open(self)
        super().connection_made(transport)

    async def start(self) -> None:
        """Serve requests until the connection ends.

        If the client leaves while the rest of a body is discarded, the cancellation refers to aiohttp's frame, and that
        to the task: a cycle that would hold the connection until the garbage collector looks at old objects.
        """
        try:
            await super().start()
        except asyncio.CancelledError as error:
            release_frames(error)
            raise

    def connection_lost(self, exc: BaseException | None) -> None:
        """Cancel the timeout of a partial request."""
        super().connection_lost(exc)
        self.client = None
        if self.monitor is not None:
            self.monitor.close(self)
        self._cancel_head_timeout()

    def pause_writing(self) -> None:
        """Count the bytes that the client has not read."""
        super().pause_writing()
        if self.monitor is not None:
            self.monitor.pause(self)

    def resume_writing(self) -> None:
        """Continue to write: the client has read most of them."""
        if self.monitor is not None:
            self.monitor.resume(self)
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Start the timeout of a partial request, or cancel it once the head is complete."""
        count = self._request_count
        super().data_received(data)
        if data:
            self._received_end = data[-4:] if len(data) >= len(_HEAD_END) else (self._received_end + data)[-4:]
        has_request = self._request_count > count or bool(self._messages)
        self._has_partial_request = not (has_request and self._received_end == _HEAD_END)
        if not self._has_partial_request:
            self._cancel_head_timeout()
        elif self._head_timer is None:
            self._start_head_timeout()

    def _start_head_timeout(self) -> None:
        self._head_timer = self._loop.call_later(_HEAD_TIMEOUT_SECONDS, self._on_head_timeout)

    def _cancel_head_timeout(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _on_head_timeout(self) -> None:
        if self._is_waiting():
            self.force_close()
        else:  # the response to the request before is not finished
            self._start_head_timeout()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send a response. While the server drains, it is the last one of its connection.

        A lost client is reported by an exception, a cancellation, or the returned flag.
        """
        if (observation := CURRENT_OBSERVATION.get(None)) is not None:
            self.key_id = observation.key_id
            # The refusal of a key that was withdrawn must reach its client.
            self.is_withdrawn = is_public if resp.status >= HTTPStatus.BAD_REQUEST else observation.is_withdrawn
        body = resp.body if isinstance(resp, web.Response) else None
        self.response_bytes = (body.size or 0) if isinstance(body, BufferListPayload) else 0
        if self._manager is not None and self._manager.draining:
            _close_after(resp)
        is_lost = self.is_sending = True
        try:
            sent, is_lost = await super().finish_response(request, resp, start_time)
        finally:
            self.is_sending = False
            if self.observer is not None:
                if is_lost:
                    self.observer.on_client_closed(request)
                else:
                    self.observer.on_response_sent(request, resp)
        return sent, is_lost

    def close_idle(self) -> None:
        """Close the connection unless a request is running, has arrived or is about to."""
        if self._is_waiting() and not (self._has_partial_request or self._is_new() or self._has_unread()):
            self.force_close()

    def _is_waiting(self) -> bool:
        return self._waiter is not None and not self._waiter.done()

    def _is_new(self) -> bool:
        return not self._request_count and self._loop.time() < self._accepted_at + _FIRST_REQUEST_SECONDS

    def _has_unread(self) -> bool:
        """Whether the kernel has data that the event loop did not read yet."""
        if self.transport is None:
            return False
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,  # noqa: ARG002 - derived from the exception
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it repeats what the client sent
    ) -> web.StreamResponse:
        request_id = secrets.token_hex(8)
        # Neither message nor traceback: both contain the request line.
        _log.warning("request %s was refused before it reached the application: %s", request_id, type(exc).__name__)
        if request.writer.output_size > 0:
            raise ConnectionError("The response has already started.")
        response = problem_response(refusal_of(exc), "", request_id)
        if exc is not None:
            release_frames(exc)
        add_common_headers(response, request_id)
        _close_after(response)
        return response


def _close_after(response: web.StreamResponse) -> None:
    response.force_close()
    # Explicit even if HTTP/1.0 implies it: aiohttp responds to an unparsable request in that version.
    response.headers["Connection"] = "close"


async def _accept(
    handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
    observer: RequestObserver | None,
    request: web.BaseRequest,
) -> web.StreamResponse:
    """Pass a request to the application if its HTTP version is supported; report a client that leaves meanwhile."""
    if request.version not in _SUPPORTED_VERSIONS:
        # Otherwise the response would claim that version too.
        request._cache["version"] = HttpVersion11  # noqa: SLF001 - see the module docstring
        raise MalformedRequest("Send HTTP/1.1.")
    if "Expect" in request.headers:
        # aiohttp would respond to it before the application does.
        headers = request.headers.copy()
        require_continue(headers.popall("Expect"))
        request._cache["headers"] = type(request.headers)(headers)  # noqa: SLF001 - see the module docstring
    try:
        return await handler(request)
    except asyncio.CancelledError:
        if observer is not None:
            observer.on_client_closed(request)
        raise


class HttpServer(web.Server):
    """Creates an `HttpConnection` per client. Unlike aiohttp's server it rejects unknown options."""

    draining = False
    observer: RequestObserver | None = None
    monitor: SendMonitor | None = None

    @classmethod
    def of(cls, original: web.Server, app: web.Application) -> HttpServer:
        """Return the replacement of an aiohttp server; raise TypeError for an unknown option."""
        options: dict[str, Any] = original._kwargs  # noqa: SLF001 - see the module docstring
        observer = app.get(REQUEST_OBSERVER)
        server = cls(
            partial(_accept, original.request_handler, observer),
            request_factory=partial(app._make_request, _cls=_Request),  # noqa: SLF001 - see the module docstring
            handler_cancellation=original.handler_cancellation,
            **options,
        )
        server.observer = observer
        server.monitor = app.get(SEND_MONITOR)
        # A trial connection, so that an invalid option fails at startup and not with the first client.
        server()
        return server

    def __call__(self) -> web.RequestHandler:
        """Return the handler of a new connection."""
        connection = HttpConnection(self, loop=self._loop, **self._kwargs)
        connection.observer = self.observer
        connection.monitor = self.monitor
        return connection


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

    def __init__(self, app: web.Application, settings: ServiceSettings) -> None:
        super().__init__(
            app,
            access_log=None,
            handler_cancellation=True,
            # Requests have had their time in `wait_closed` before.
            shutdown_timeout=_MARGIN_SECONDS,
            keepalive_timeout=settings.keepalive_seconds,
            **_CONNECTION_OPTIONS,
        )
        self.longest_drain_seconds = settings.deadline_seconds + _MARGIN_SECONDS

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
        while server is not None and server.connections and loop.time() < idle_until + self.longest_drain_seconds:
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
