"""The answers that are no records: one shape, and the statuses with what they mean (decisions, Errors)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.openapi.headers import OF_A_KEY, OF_EVERY_ANSWER, references
from service.scope import COMPANY

if TYPE_CHECKING:
    from service.operation import Operation

_TEXT = {"type": "string"}
_FAULT = {
    "type": "object",
    "title": "Fault",
    "properties": {"parameter": _TEXT, "message": _TEXT},
    "required": ["parameter", "message"],
}
PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": "A problem document (RFC 9457).",
    "properties": {
        "type": {"type": "string", "format": "uri-reference", "description": "Where the problem is described."},
        "title": _TEXT,
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string", "description": "A sentence for people; it may change."},
        "instance": {"type": "string", "description": "The path of the request, without its query."},
        "code": {"type": "string", "description": "Stable, for programs."},
        "messages": {"type": "array", "items": _TEXT, "minItems": 1},
        "errors": {"type": "array", "items": _FAULT, "description": "The parameters at fault, all of them at once."},
        "request_id": _TEXT,
    },
    "required": ["type", "title", "status", "detail", "instance", "code", "messages", "errors", "request_id"],
}

# Status, what it means, and the headers that come with it beside those of every answer.
_MEANINGS: dict[int, tuple[str, tuple[str, ...]]] = {
    400: ("Parameters are missing or cannot be used: mend the request.", OF_A_KEY),
    401: ("No key, or one that is malformed, unknown, expired or revoked.", ("WWW-Authenticate",)),
    403: ("The key may not read what a parameter names.", OF_A_KEY),
    404: ("There is no such record within what the key may read.", OF_A_KEY),
    410: ("The token is void: take a snapshot.", OF_A_KEY),
    414: ("The URL is longer than 8 KiB.", ()),
    429: ("Too many requests: come back after Retry-After.", (*OF_A_KEY, "Retry-After")),
    431: ("There are more header fields than are taken, or one of them is longer.", ()),
    503: ("The search engine is away or overloaded: come back after Retry-After.", (*OF_A_KEY, "Retry-After")),
    504: ("The deadline has passed: come back after Retry-After, or ask for less.", (*OF_A_KEY, "Retry-After")),
}


def statuses(operation: Operation) -> list[int]:
    """Return the statuses of problems that an operation answers with; 500 is a defect and is not promised."""
    absent = set()
    if COMPANY not in operation.schema.fields:
        absent.add(403)
    if "{" not in operation.path:
        absent.add(404)
    if "since" not in operation.schema.fields:
        absent.add(410)
    return [status for status in _MEANINGS if status not in absent]


def responses() -> dict[str, dict[str, Any]]:
    """Return the components of the responses that hold a problem, by their names."""
    return {name(status): _response(*_MEANINGS[status]) for status in _MEANINGS}


def name(status: int) -> str:
    """Return the name of the response component of a status."""
    return f"Problem{status}"


def reference(status: int) -> dict[str, str]:
    """Return the reference to the response component of a status."""
    return {"$ref": f"#/components/responses/{name(status)}"}


def _response(meaning: str, headers: tuple[str, ...]) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": meaning, "headers": references(*OF_EVERY_ANSWER, *headers), "content": content}
