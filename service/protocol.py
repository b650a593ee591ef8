"""The HTTP layer below the application: what it cannot parse is answered with a problem document too.

aiohttp answers such requests itself, in plain text that repeats the line at fault, and logs the line: a key in the
query would be in both. The seams used are aiohttp's inner ones; `tests/service/test_protocol.py` tells when they move.
"""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING, Any

from aiohttp import web

from service.errors import ApiError, InternalError, MalformedRequest
from service.problems import REQUEST_ID, problem

if TYPE_CHECKING:
    from service.settings import ServiceSettings

# Longer lines than the service's own limit on URLs reach it, so that it can answer 414 by itself.
_LONGEST_LINE_BYTES = 65_536
_KEEPALIVE_SECONDS = 75

_log = logging.getLogger("service")


class _Connection(web.RequestHandler):
    """One connection of a client."""

    __slots__ = ()

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
        response.headers[REQUEST_ID] = request_id
        response.force_close()
        return response


class _Server(web.Server):
    """Opens a `_Connection` for each client. Unlike aiohttp's own it does not drop options that it does not know."""

    def __call__(self) -> web.RequestHandler:
        """Return the handler of a new connection."""
        return _Connection(self, loop=self._loop, **self._kwargs)


class ServiceRunner(web.AppRunner):
    """Runs the application behind connections that never answer in plain text."""

    def __init__(self, app: web.Application, settings: ServiceSettings) -> None:
        """Fix the options of every connection; a client that leaves cancels its handler."""
        super().__init__(
            app,
            access_log=None,
            handler_cancellation=True,
            keepalive_timeout=_KEEPALIVE_SECONDS,
            shutdown_timeout=settings.deadline_seconds,
            max_line_size=_LONGEST_LINE_BYTES,
        )

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        options: dict[str, Any] = made._kwargs  # noqa: SLF001 - see the module's text
        return _Server(
            made.request_handler,
            request_factory=made.request_factory,
            handler_cancellation=made.handler_cancellation,
            **options,
        )
