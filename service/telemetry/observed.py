"""Where the end of every request passes: the connection of the client, below the application."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from service.telemetry.observer import Observer

    Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class ObservedConnection(web.RequestHandler):
    """A connection that tells its observer, where it has one, of each answer."""

    __slots__ = ("observer",)

    observer: Observer | None

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send an answer. That the client has left meanwhile is told by an error, by being cancelled, or returned."""
        is_left = True
        try:
            sent, is_left = await super().finish_response(request, resp, start_time)
        finally:
            if self.observer is not None:
                if is_left:
                    self.observer.left(request)
                else:
                    self.observer.answered(request, resp)
        return sent, is_left


def observed(handler: Handler, observer: Observer | None) -> Handler:
    """Return a handler that tells of requests whose client has left before there was an answer."""
    if observer is None:
        return handler

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await handler(request)
        except asyncio.CancelledError:
            observer.left(request)
            raise

    return handle
