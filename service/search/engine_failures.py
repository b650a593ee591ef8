"""Map failures of Elasticsearch to API errors, and count them (docs/reliability.md)."""

import re
from typing import TypeVar

from cluster.http.node_loss import NODE_LOSS_TYPES
from service.errors import ApiError, DeadlineExceeded, EngineUnavailable, InternalError, RebuildDue
from service.telemetry.counters import ENGINE_FAILURES

CountedError = TypeVar("CountedError", bound=ApiError)

# Bytes of an error response or of a query that are logged.
_LOGGED_BYTES = 2_000
# Matches members only, at any depth: inside strings quotes are escaped.
_TYPE = re.compile(rb'"type":"([a-z_]+)"')
# Wraps the actual cause.
_WRAPPER = b"search_phase_execution_exception"
_NODE_LOST = frozenset(name.encode() for name in NODE_LOSS_TYPES)
_TIMED_OUT = b"search_timeout_exception"
# Elasticsearch reports all of these as 400, a fault of the request: a search that an operator cancelled, a closed
# index, and an index of another version that lacks a field of the query.
_MISSING_FIELD_MESSAGES = (b"No field mapping can be found for the field", b"in order to sort on")
_MISSING = "missing"
_CAUSE_KINDS = {b"task_cancelled_exception": "cancelled", b"index_closed_exception": _MISSING}


class NodeLost(EngineUnavailable):
    """The connection to a node broke before the response was complete; another node may respond."""


def count_failure(kind: str, error: CountedError) -> CountedError:
    """Count a failure by its kind, and return the error to raise."""
    ENGINE_FAILURES.labels(kind).inc()
    return error


def malformed_response(response: bytes | bytearray) -> EngineUnavailable:
    """Return the error for a successful response that is malformed or truncated."""
    reason = f"Elasticsearch sent a malformed response of {len(response)} bytes: {_text(response)}"
    return count_failure("unintelligible", EngineUnavailable(reason))


def status_failure(status: int, response: bytes | bytearray, query: bytes | None) -> ApiError:
    """Return the error for a status other than 200; the text of Elasticsearch goes to the log only."""
    reason = f"Elasticsearch responded {status}: {_text(response)}"
    kind = _kind(status, response)
    if kind == "timeout":
        return count_failure(kind, DeadlineExceeded())
    if kind == "node":
        return count_failure(kind, NodeLost(reason))
    if kind == _MISSING and _lacks_field(status, response):
        return count_failure(kind, RebuildDue(reason=reason))
    if kind in {"defect", "forbidden"}:
        return count_failure(kind, InternalError(reason if query is None else f"{reason} to the query {_text(query)}"))
    return count_failure(kind, EngineUnavailable(reason))


def _kind(status: int, response: bytes | bytearray) -> str:
    """Classify an error response by its status and the types of all its causes."""
    causes = set(_TYPE.findall(response)) - {_WRAPPER}
    # Its status is 429, which usually means a rejection; older versions send 504.
    if _TIMED_OUT in causes:
        return "timeout"
    if known := causes & _CAUSE_KINDS.keys():
        return _CAUSE_KINDS[known.pop()]
    if causes and causes <= _NODE_LOST:
        return "node"
    if _lacks_field(status, response):
        return _MISSING
    # 404 is a missing alias: an operational fault, never an empty list.
    by_status = {401: "forbidden", 403: "forbidden", 404: _MISSING, 429: "rejected"}
    return by_status.get(status, "unavailable" if status in {408, 502, 503, 504} else "defect")


def _lacks_field(status: int, response: bytes | bytearray) -> bool:
    return status == 400 and any(message in response for message in _MISSING_FIELD_MESSAGES)


def _text(raw: bytes | bytearray) -> str:
    return raw[:_LOGGED_BYTES].decode(errors="replace")
