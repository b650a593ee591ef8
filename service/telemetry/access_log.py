"""One line for each request. It holds nothing that a client chose: no path, no query, no header, no name of a tool.

So it needs no masking, and goes past `logging`, whose records, masked, cost three times as much as all the rest.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from multidict import MultiMapping

from service.addresses import forwarded
from service.telemetry.observation import NONE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aiohttp import web

    from service.addresses import Address, Network
    from service.telemetry.observation import Observation

    # Takes a message and the fields of a line.
    Emit = Callable[[str, dict[str, Any]], None]

_KNOWN_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
# An orchestrator asks them every few seconds; what is worth a line is that one says no.
_PROBES = frozenset({"/livez", "/readyz", "/startupz"})


class Told(StrEnum):
    """Which requests get a line."""

    ALL = "all"  # but probes that were answered 200
    ERRORS = "errors"  # statuses from 400 on
    NONE = "none"


class AccessLog:
    """Writes the line of a request that has ended."""

    def __init__(self, told: Told, trusted: Sequence[Network], emit: Emit | None) -> None:
        """Write what is `told`, by `emit`; `trusted` are the proxies in front, which say who asks."""
        self._told = told if emit is not None else Told.NONE
        self._trusted = trusted
        self._emit = emit

    def write(self, request: web.BaseRequest, seen: Observation, status: int, body_bytes: int, seconds: float) -> None:
        """Write the line, if this request gets one; `seconds` until the last byte was handed to the connection."""
        if self._emit is None or not self._tells(seen, status):
            return
        method = known_method(request.method)
        fields = _fields(seen, method, status, body_bytes, seconds)
        if not seen.key_id and (client := self._client(request)) is not None:
            # Where a key was accepted its id says who asks, and the address of a person would be kept for nothing.
            fields["client"] = str(client)
        self._emit(f"{method} {seen.route} {status}", fields)

    def _client(self, request: web.BaseRequest) -> Address | None:
        # What could not be parsed has no headers, and they stand in a plain dict.
        headers: object = request.headers
        lines = headers.getall("X-Forwarded-For", ()) if isinstance(headers, MultiMapping) else ()
        return forwarded(request.remote or "", lines, self._trusted)

    def _tells(self, seen: Observation, status: int) -> bool:
        if self._told is Told.ALL:
            return status >= 400 or seen.route not in _PROBES
        return self._told is Told.ERRORS and status >= 400


def known_method(method: str) -> str:
    """Return a method that HTTP knows, `OTHER` for what a client made up."""
    return method if method in _KNOWN_METHODS else "OTHER"


def _fields(seen: Observation, method: str, status: int, body_bytes: int, seconds: float) -> dict[str, Any]:
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
    if seen.tier != NONE:
        fields["tier"] = seen.tier
    if seen.trace_id:
        fields["trace_id"] = seen.trace_id
    return fields


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)
