"""Observes the end of every request, from the client's connection: counts it and writes the access log.

A line of the log holds no text sent by a client (no path, query or header). It therefore needs no masking and bypasses
`logging`, whose masked records cost three times as much as everything else.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from http import HTTPStatus
from typing import Any

from aiohttp import web
from multidict import MultiMapping

from service.http.requests import IpAddress, IpNetwork, forwarded_address
from service.telemetry.observation import CURRENT_OBSERVATION, NO_LABEL, RequestObservation, TrafficTotals

# Gets each completed request, with the status that was sent.
RequestListener = Callable[[RequestObservation, int], None]
# Writes a message and fields as one line.
EmitLine = Callable[[str, dict[str, Any]], None]

_KNOWN_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
# Orchestrators request them every few seconds; only failures are logged.
_PROBES = frozenset({"/livez", "/readyz", "/startupz"})


class AccessLogMode(StrEnum):
    """The requests to log."""

    ALL = "all"  # except probes with status 200
    ERRORS = "errors"  # status 400 and above
    NONE = "none"


class AccessLog:
    """Logs completed requests."""

    def __init__(self, mode: AccessLogMode, trusted: Sequence[IpNetwork], emit: EmitLine | None) -> None:
        """Write lines with `emit`; `trusted` are the proxies whose `X-Forwarded-For` is used."""
        self._mode = mode if emit is not None else AccessLogMode.NONE
        self._trusted = trusted
        self._emit = emit

    def write(
        self, request: web.BaseRequest, seen: RequestObservation, status: int, body_bytes: int, seconds: float
    ) -> None:
        """Write the line of a request, if enabled; `seconds` until the connection has accepted the last byte."""
        if self._emit is None or not self._is_logged(seen, status):
            return
        method = known_method(request.method)
        fields = _fields(seen, method, status, body_bytes, seconds)
        if not seen.key_id and (client := self._client(request)) is not None:
            # Once a key was accepted, its id identifies the caller, so the address is not stored.
            fields["client"] = str(client)
        self._emit(f"{method} {seen.route} {status}", fields)

    def _client(self, request: web.BaseRequest) -> IpAddress | None:
        # A request that could not be parsed has no headers, only an empty dict.
        headers: object = request.headers
        lines = headers.getall("X-Forwarded-For", ()) if isinstance(headers, MultiMapping) else ()
        return forwarded_address(request.remote or "", lines, self._trusted)

    def _is_logged(self, seen: RequestObservation, status: int) -> bool:
        if self._mode is AccessLogMode.ALL:
            return status >= 400 or seen.route not in _PROBES
        return self._mode is AccessLogMode.ERRORS and status >= 400


def known_method(method: str) -> str:
    """Return the method if it is an HTTP method, otherwise `OTHER`."""
    return method if method in _KNOWN_METHODS else "OTHER"


def _fields(seen: RequestObservation, method: str, status: int, body_bytes: int, seconds: float) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "request_id": seen.request_id,
        "method": method,
        "route": seen.route,
        "status": status,
        "rows": seen.rows,
        "bytes": body_bytes,
        "milliseconds": _milliseconds(seconds),
    }
    if (upstream := seen.upstream_seconds) is not None:
        fields["upstream_milliseconds"] = _milliseconds(upstream)
    if seen.is_shared:
        fields["shared"] = True
    if seen.key_id:
        fields["key_id"] = seen.key_id
    if seen.tier != NO_LABEL:
        fields["tier"] = seen.tier
    if seen.trace_id:
        fields["trace_id"] = seen.trace_id
    return fields


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

# The status that nginx logs when the client has left before the end of the response; it is never sent.
CLIENT_CLOSED_REQUEST = 499
_WITHOUT_BODY = {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}


class RequestObserver:
    """Called by the connection once per request, after the last byte of the response."""

    def __init__(self, traffic: TrafficTotals, access_log: AccessLog, listeners: Sequence[RequestListener]) -> None:
        """Add each request to the totals and to the access log, and tell it to the listeners."""
        self._traffic = traffic
        self._access_log = access_log
        self._listeners = listeners

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
        for listener in self._listeners:
            listener(seen, status)
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
