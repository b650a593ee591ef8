"""Observes the end of every request, from the client's connection: counts it and writes the access log."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web

from service.telemetry.access_log import AccessLog
from service.telemetry.feed_consumers import ConsumerRegistry
from service.telemetry.observation import CURRENT_OBSERVATION, RequestObservation
from service.telemetry.traffic import TrafficTotals

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

# The status that nginx logs when the client has left before the end of the response; it is never sent.
CLIENT_CLOSED_REQUEST = 499
_WITHOUT_BODY = {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}


class RequestObserver:
    """Called by the connection once per request, after the last byte of the response."""

    def __init__(self, traffic: TrafficTotals, consumers: ConsumerRegistry, access_log: AccessLog) -> None:
        """Add each request to the totals, to the consumers of the console, and to the access log."""
        self._traffic = traffic
        self._consumers = consumers
        self._access_log = access_log

    def on_response_sent(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Record a request whose response was sent completely."""
        seen = _observation(response.headers.get("X-Request-Id", ""))
        has_body = request.method != "HEAD" and response.status not in _WITHOUT_BODY
        self._record(request, seen, response.status, (response.content_length or seen.sent_bytes) if has_body else 0)

    def on_client_closed(self, request: web.BaseRequest) -> None:
        """Record a request whose client left before the response was sent completely."""
        self._record(request, _observation(), CLIENT_CLOSED_REQUEST, 0)

    def _record(self, request: web.BaseRequest, seen: RequestObservation, status: int, body_bytes: int) -> None:
        now = time.perf_counter()
        if not body_bytes:
            seen.rows = 0
        self._traffic.add(seen, status, seen.rows, body_bytes, (seen.ready_at or now) - seen.started_at)
        self._consumers.add(seen, status)
        self._access_log.write(request, seen, status, body_bytes, now - seen.started_at)


def _observation(request_id: str = "") -> RequestObservation:
    """Return the current observation, or a new one if the request was refused before it reached the application."""
    seen = CURRENT_OBSERVATION.get(None)
    return RequestObservation(request_id) if seen is None else seen


REQUEST_OBSERVER = web.AppKey("observer", RequestObserver)


class ObservedConnection(web.RequestHandler):
    """A client connection that reports each response to its observer, if it has one."""

    __slots__ = ("observer",)

    observer: RequestObserver | None

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send a response. A lost client is reported by an exception, a cancellation, or the returned flag."""
        is_lost = True
        try:
            sent, is_lost = await super().finish_response(request, resp, start_time)
        finally:
            if self.observer is not None:
                if is_lost:
                    self.observer.on_client_closed(request)
                else:
                    self.observer.on_response_sent(request, resp)
        return sent, is_lost


def observe_cancellation(handler: Handler, observer: RequestObserver | None) -> Handler:
    """Return a handler that also reports requests whose client left before there was a response."""
    if observer is None:
        return handler

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await handler(request)
        except asyncio.CancelledError:
            observer.on_client_closed(request)
            raise

    return handle
