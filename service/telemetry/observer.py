"""The end of every request, whatever became of it: counted, and told to the access log."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import TYPE_CHECKING

from aiohttp import web

from service.telemetry.observation import OBSERVED, Observation

if TYPE_CHECKING:
    from service.telemetry.access_log import AccessLog
    from service.telemetry.consumers import Consumers
    from service.telemetry.traffic import Traffic

# What nginx calls a request whose client has left before the end of the answer; nobody is sent it.
CLIENT_LEFT = 499
_WITHOUT_BODY = {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}


class Observer:
    """Is told of each request once, by the connection, behind the last byte of its answer."""

    def __init__(self, traffic: Traffic, consumers: Consumers, access_log: AccessLog) -> None:
        """Count in `traffic`, note in `consumers` who asked."""
        self._traffic = traffic
        self._consumers = consumers
        self._access_log = access_log

    def answered(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Take note that an answer was sent."""
        seen = _observation(response.headers.get("X-Request-Id", ""))
        is_sent = request.method != "HEAD" and response.status not in _WITHOUT_BODY
        self._end(request, seen, response.status, (response.content_length or seen.sent_bytes) if is_sent else 0)

    def left(self, request: web.BaseRequest) -> None:
        """Take note that the client has left before its answer was sent as a whole."""
        self._end(request, _observation(), CLIENT_LEFT, 0)

    def _end(self, request: web.BaseRequest, seen: Observation, status: int, body_bytes: int) -> None:
        now = time.perf_counter()
        if not body_bytes:
            seen.rows = 0
        self._traffic.add(seen, status, seen.rows, body_bytes, (seen.answered_at or now) - seen.began)
        self._consumers.add(seen, status)
        self._access_log.write(request, seen, status, body_bytes, now - seen.began)


def _observation(request_id: str = "") -> Observation:
    """Return the notes of the request, which begin only now where it was answered before it came to the application."""
    seen = OBSERVED.get(None)
    return Observation(request_id) if seen is None else seen


OBSERVER = web.AppKey("observer", Observer)
