"""The connections of clients, below the application: what aiohttp would answer by itself is answered here.

aiohttp answers a request that it cannot parse in plain text that repeats the line at fault, and logs the line: a key in
the query would be in both. It also repeats an `Expect` that it does not know, speaks versions of HTTP that there are
not, and tells its own version. The seams used are aiohttp's inner ones; `tests/service/test_protocol.py` and
`tests/service/test_hygiene.py` tell when they move.
"""

from __future__ import annotations

import logging
import secrets
import select
from functools import partial
from typing import TYPE_CHECKING, Any

from aiohttp import HttpVersion10, HttpVersion11, web
from aiohttp.http_exceptions import BadHttpMessage, HttpProcessingError, LineTooLong

from service.errors import ApiError, InternalError
from service.headers import seal
from service.problems import problem
from service.telemetry.observed import ObservedConnection, observed
from service.telemetry.observer import OBSERVER, Observer
from service.unsound import LONGEST_HEADER_BYTES, MOST_HEADERS, HeadersTooLarge, MalformedRequest, UrlTooLong

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

# Longer lines than the service's own limit on URLs reach it, so that it can tell how long they are.
_LONGEST_LINE_BYTES = 65_536
# What every connection is opened with.
OPTIONS: dict[str, Any] = {
    "keepalive_timeout": 75,
    "max_line_size": _LONGEST_LINE_BYTES,
    "max_field_size": LONGEST_HEADER_BYTES,
    "max_headers": MOST_HEADERS,
    # Bodies are never unpacked, and refused without being read. For so many seconds what comes of one is thrown away,
    # so that the client gets to read the refusal before the connection is reset.
    "auto_decompress": False,
    "lingering_time": 1.0,
}
# From the first byte of a request to the end of its head: who takes longer holds a connection and asks nothing.
_HEAD_SECONDS = 10.0
# A connection that was just accepted brings its first request very soon.
_FIRST_REQUEST_SECONDS = 1.0
_SPOKEN = frozenset({HttpVersion10, HttpVersion11})
# The only sign by which aiohttp tells this fault from others.
_TOO_MANY = ("Too many headers received",)

_log = logging.getLogger("service")


class _Request(web.Request):
    """A request whose answer does not say what software answers."""

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        await super()._prepare_hook(response)
        # aiohttp has just put it there.
        response.headers.popall("Server", None)


class Connection(ObservedConnection):
    """One connection of a client."""

    __slots__ = ("_accepted", "_arriving", "_halfway")

    _manager: Server | None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note of the time."""
        self._accepted = self._loop.time()
        self._halfway = False
        self._arriving: asyncio.TimerHandle | None = None
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Wait no longer for the rest of a request."""
        super().connection_lost(exc)
        self._wait_for_head(is_expected=False)

    def data_received(self, data: bytes) -> None:
        """Take note of a request that is not whole yet."""
        super().data_received(data)
        self._halfway = self._waits()
        if self._halfway is (self._arriving is None):
            self._wait_for_head(is_expected=self._halfway)

    def _wait_for_head(self, *, is_expected: bool) -> None:
        if self._arriving is not None:
            self._arriving.cancel()
        self._arriving = self._loop.call_later(_HEAD_SECONDS, self.force_close) if is_expected else None

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send an answer; every one passes here. While draining it is the last one of its connection."""
        if self._manager is not None and self._manager.draining:
            _part_behind(resp)
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
        status: int = 500,  # noqa: ARG002 - told by the exception
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it repeats what the client sent
    ) -> web.StreamResponse:
        """Answer what no middleware sees, and close the connection."""
        request_id = secrets.token_hex(8)
        # Neither text nor traceback: both hold the request line.
        _log.warning("request %s was refused below the application: %s", request_id, type(exc).__name__)
        if request.writer.output_size > 0:
            raise ConnectionError("The answer has begun, no other can follow it.")
        response = problem(_refusal(exc), "", request_id)
        seal(response, request_id)
        _part_behind(response)
        return response


def _part_behind(response: web.StreamResponse) -> None:
    response.force_close()
    # Said even where HTTP/1.0 implies it: what could not be parsed is answered by that version.
    response.headers["Connection"] = "close"


def _refusal(exc: BaseException | None) -> ApiError:
    if isinstance(exc, LineTooLong):
        # Its second argument is the limit that was passed: of the request line, or of one header.
        return UrlTooLong(f"over {_LONGEST_LINE_BYTES}") if exc.args[1] == _LONGEST_LINE_BYTES else HeadersTooLarge()
    if isinstance(exc, BadHttpMessage) and exc.args == _TOO_MANY:
        return HeadersTooLarge()
    if isinstance(exc, HttpProcessingError | MalformedRequest):
        return MalformedRequest()
    return InternalError("a failure below the application")


async def _accept(
    handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], request: web.BaseRequest
) -> web.StreamResponse:
    """Pass a request on to the application, if it is of a version that is spoken here."""
    if request.version not in _SPOKEN:
        # Else the answer would say that it is of that version too.
        request._cache["version"] = HttpVersion11  # noqa: SLF001 - see the module's text
        raise MalformedRequest
    if "Expect" in request.headers:
        # aiohttp would answer it before the application is asked. Since no body is taken there is nothing to expect.
        headers = request.headers.copy()
        headers.popall("Expect")
        request._cache["headers"] = type(request.headers)(headers)  # noqa: SLF001 - see the module's text
    return await handler(request)


class Server(web.Server):
    """Opens a `Connection` for each client. Unlike aiohttp's own it does not drop options that it does not know."""

    draining = False
    observer: Observer | None = None

    @classmethod
    def of(cls, made: web.Server, app: web.Application) -> Server:
        """Return the server that takes the place of aiohttp's; raise TypeError where an option is none."""
        options: dict[str, Any] = made._kwargs  # noqa: SLF001 - see the module's text
        observer = app.get(OBSERVER)
        server = cls(
            observed(partial(_accept, made.request_handler), observer),
            request_factory=partial(app._make_request, _cls=_Request),  # noqa: SLF001 - see the module's text
            handler_cancellation=made.handler_cancellation,
            **options,
        )
        server.observer = observer
        # It has no client yet, and ends here: a wrong option is found at the start, not by whoever connects first.
        server()
        return server

    def __call__(self) -> web.RequestHandler:
        """Return the handler of a new connection."""
        connection = Connection(self, loop=self._loop, **self._kwargs)
        connection.observer = self.observer
        return connection
