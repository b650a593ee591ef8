"""Log lines, of the service and of each request: JSON, one object per line, or readable text.

A line of the access log holds no text sent by a client (no path, query or header). It therefore needs no masking and
bypasses `logging`, whose masked records cost three times as much as everything else.
"""

import datetime as dt
import logging
import os
import select
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import web
from multidict import MultiMapping
from prometheus_client import Counter

from cluster.terminal import printable
from service.http.requests import IpAddress, forwarded_address
from service.settings import AccessLogMode, IpNetwork, LogFormat
from service.telemetry.observation import CURRENT_OBSERVATION, NO_LABEL, RequestObservation, TrafficTotals

DROPPED_LINES = Counter(
    "brokerage_access_lines_dropped", "Lines of the access log dropped because the reader was too slow."
)

_ACCESS = "service.access"


# Writes a message and fields as one line.
EmitLine = Callable[[str, dict[str, Any]], None]


class JsonLogFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, process, message, and if applicable `request_id` and `error`."""

    def format(self, record: logging.LogRecord) -> str:
        moment = dt.datetime.fromtimestamp(record.created, dt.UTC)
        fields = _fields(self, record)
        line = _line(moment, record.levelname.lower(), record.name, _encodable(record.getMessage()), fields)
        return printable(line.decode())


class ConsoleLogFormatter(logging.Formatter):
    """A readable line: time of day, level, message, fields; followed by the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        fields = _fields(self, record)
        error = fields.pop("error", "")
        moment = dt.datetime.fromtimestamp(record.created, dt.UTC)
        text = _text(moment, record.levelname.lower(), record.getMessage(), fields)
        return printable(f"{text}\n{error}" if error else text)


def _fields(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, Any]:
    seen = CURRENT_OBSERVATION.get(None)
    fields = {"request_id": seen.request_id} if seen is not None else {}
    trace = record.exc_text or (formatter.formatException(record.exc_info) if record.exc_info else "")
    error = "\n".join(filter(None, (trace, record.stack_info)))
    return fields | ({"error": _encodable(error)} if error else {})


def _encodable(text: str) -> str:
    """Escape surrogates, which file names may contain and JSON cannot."""
    return text.encode(errors="backslashreplace").decode()


def _line(moment: dt.datetime, level: str, logger: str, message: str, fields: dict[str, Any]) -> bytes:
    line = {"time": moment, "level": level, "logger": logger, "process": os.getpid(), "message": message, **fields}
    return orjson.dumps(line, option=orjson.OPT_UTC_Z)


def _text(moment: dt.datetime, level: str, message: str, fields: dict[str, Any]) -> str:
    members = "".join(f" {name}={value}" for name, value in fields.items())
    return f"{moment.astimezone():%H:%M:%S} {level:8} {message}{members}"


def configure_logging(form: LogFormat) -> EmitLine:
    """Log to standard error: all records of the service from INFO on, and warnings of libraries.

    Returns the function that writes lines of the access log.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(ConsoleLogFormatter() if form.is_console else JsonLogFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("service").setLevel(logging.INFO)
    return _emit_text if form.is_console else _emit_json


def _emit_json(message: str, fields: dict[str, Any]) -> None:
    _write(_line(dt.datetime.now(dt.UTC), "info", _ACCESS, message, fields) + b"\n")


def _emit_text(message: str, fields: dict[str, Any]) -> None:
    _write(_text(dt.datetime.now(dt.UTC), "info", message, fields).encode() + b"\n")


def _write(line: bytes) -> None:
    """Write a line in one call, so that processes can share a pipe; drop it if the pipe is full.

    A blocked write would stall all requests.
    """
    with suppress(OSError):
        if _has_room(sys.stderr.fileno()):
            os.write(sys.stderr.fileno(), line)
            return
    DROPPED_LINES.inc()


def _has_room(descriptor: int) -> bool:
    """Return whether a line can be written without blocking; for a pipe, whether 4,096 bytes fit."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(0))


# Gets each completed request, with the status that was sent.
RequestListener = Callable[[RequestObservation, int], None]

_KNOWN_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
# Orchestrators request them every few seconds; only failures are logged.
_PROBES = frozenset({"/livez", "/readyz", "/startupz"})


class AccessLog:
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
        fields = _access_fields(seen, method, status, body_bytes, seconds)
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


def _access_fields(
    seen: RequestObservation, method: str, status: int, body_bytes: int, seconds: float
) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "request_id": seen.request_id,
        "method": method,
        "route": seen.route,
        "status": status,
        "rows": seen.rows,
        "bytes": body_bytes,
        "milliseconds": round(seconds * 1000, 3),
    }
    if (upstream := seen.upstream_seconds) is not None:
        fields["upstream_milliseconds"] = round(upstream * 1000, 3)
    if seen.cost > 1:
        fields["cost"] = seen.cost
    if seen.is_shared:
        fields["shared"] = True
    if seen.key_id:
        fields["key_id"] = seen.key_id
    if seen.tier != NO_LABEL:
        fields["tier"] = seen.tier
    if seen.trace_id:
        fields["trace_id"] = seen.trace_id
    return fields


# The status that nginx logs when the client has left before the end of the response; it is never sent.
CLIENT_CLOSED_REQUEST = 499
_WITHOUT_BODY = {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}


class RequestObserver:
    """Called by the connection once per request, after the last byte of the response.

    A request that was refused before it reached the application has no observation yet.
    """

    def __init__(self, traffic: TrafficTotals, access_log: AccessLog, listeners: Sequence[RequestListener]) -> None:
        self._traffic = traffic
        self._access_log = access_log
        self._listeners = listeners

    def on_response_sent(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        if (seen := CURRENT_OBSERVATION.get(None)) is None:
            seen = RequestObservation(response.headers.get("X-Request-Id", ""))
        has_body = request.method != "HEAD" and response.status not in _WITHOUT_BODY
        self._record(request, seen, response.status, (response.content_length or seen.sent_bytes) if has_body else 0)

    def on_client_closed(self, request: web.BaseRequest) -> None:
        """Record a request whose client left before the response was sent completely."""
        if (seen := CURRENT_OBSERVATION.get(None)) is None:
            seen = RequestObservation()
        self._record(request, seen, CLIENT_CLOSED_REQUEST, 0)

    def _record(self, request: web.BaseRequest, seen: RequestObservation, status: int, body_bytes: int) -> None:
        now = time.perf_counter()
        if not body_bytes:
            seen.rows = 0
        self._traffic.add(seen, status, seen.rows, body_bytes, (seen.ready_at or now) - seen.started_at)
        for listener in self._listeners:
            listener(seen, status)
        self._access_log.write(request, seen, status, body_bytes, now - seen.started_at)


REQUEST_OBSERVER = web.AppKey("observer", RequestObserver)
