"""Whatever Elasticsearch fails with, and the answer for it: chosen and counted here (docs/reliability.md)."""

from __future__ import annotations

import re
from typing import TypeVar

from service.errors import ApiError, DeadlinePassed, EngineUnavailable, InternalError
from service.metrics import ENGINE_FAILURES

Error = TypeVar("Error", bound=ApiError)

# Bytes of a refusal or of a query that the log gets.
_LOGGED_BYTES = 2_000
# Inside texts quotes are escaped: this finds members only, at whatever depth.
_TYPE = re.compile(rb'"type":"([a-z_]+)"')
# Says that something failed, not what.
_WRAPPER = b"search_phase_execution_exception"
# A node has left while the one that was asked waited for it: a connection error that another node saw.
_NODE_HAS_LEFT = frozenset(
    {
        b"connect_transport_exception",
        b"node_closed_exception",
        b"node_disconnected_exception",
        b"node_not_connected_exception",
    }
)
_TIMED_OUT = b"search_timeout_exception"
# Elasticsearch blames all of these on the request, with 400: a search that an operator ended, an index that was closed,
# and one that lacks a field of the query since it is of another version.
_LACKS_FIELD = (b"No field mapping can be found for the field", b"in order to sort on")
_ENDED = {b"task_cancelled_exception": "cancelled", b"index_closed_exception": "missing"}


class NodeLost(EngineUnavailable):
    """The way to a node broke before the answer was whole: another node may answer."""


def failed(kind: str, error: Error) -> Error:
    """Count a failure of Elasticsearch by its kind, and return the error to raise for it."""
    ENGINE_FAILURES.labels(kind).inc()
    return error


def unintelligible(answer: bytes | bytearray) -> EngineUnavailable:
    """Return the error for what came as a good answer and is none, or not all of one."""
    reason = f"Elasticsearch answered what is no answer, in {len(answer)} bytes: {_text(answer)}"
    return failed("unintelligible", EngineUnavailable(reason))


def refusal(status: int, answer: bytes | bytearray, query: bytes | None) -> ApiError:
    """Return the error for a status other than 200; what Elasticsearch said stays in the log."""
    said = f"Elasticsearch answered {status}: {_text(answer)}"
    kind = _kind(status, answer)
    if kind == "timeout":
        return failed(kind, DeadlinePassed())
    if kind == "node":
        return failed(kind, NodeLost(said))
    if kind in {"defect", "forbidden"}:
        return failed(kind, InternalError(said if query is None else f"{said} to the query {_text(query)}"))
    return failed(kind, EngineUnavailable(said))


def _kind(status: int, answer: bytes | bytearray) -> str:
    """Return what a refusal is, by its status and the types of all its causes."""
    causes = set(_TYPE.findall(answer)) - {_WRAPPER}
    # Its status is 429, which says that there is no room, and has been 504.
    if _TIMED_OUT in causes:
        return "timeout"
    if ended := causes & _ENDED.keys():
        return _ENDED[ended.pop()]
    if causes and causes <= _NODE_HAS_LEFT:
        return "node"
    if status == 400 and any(sign in answer for sign in _LACKS_FIELD):
        return "missing"
    # 404 is a missing alias: a gap in operations, never an empty list.
    named = {401: "forbidden", 403: "forbidden", 404: "missing", 429: "rejected"}
    return named.get(status, "unavailable" if status in {408, 502, 503, 504} else "defect")


def _text(raw: bytes | bytearray) -> str:
    return raw[:_LOGGED_BYTES].decode(errors="replace")
