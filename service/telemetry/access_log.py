"""The access log: one line per request, without any text sent by a client (no path, query or header).

It therefore needs no masking and bypasses `logging`, whose masked records cost three times as much as everything else.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from aiohttp import web
from multidict import MultiMapping

from service.http.client_address import IpAddress, IpNetwork, forwarded_address
from service.telemetry.observation import NO_LABEL, RequestObservation

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
