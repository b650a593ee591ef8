"""Error responses: one shape, and the statuses with their meanings (decisions, Errors)."""

from typing import Any

from service.openapi.header_components import COMMON_HEADERS, RATE_LIMIT_HEADERS, header_references
from service.operation import Operation
from service.scope import COMPANY_PARAMETER

_TEXT = {"type": "string"}
_FAULT = {
    "type": "object",
    "title": "Fault",
    "properties": {"parameter": _TEXT, "message": _TEXT},
    "required": ["parameter", "message"],
}
PROBLEM_SCHEMA: dict[str, Any] = {
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
        "errors": {"type": "array", "items": _FAULT, "description": "The parameters at fault, at most ten at once."},
        "request_id": _TEXT,
    },
    "required": ["type", "title", "status", "detail", "instance", "code", "messages", "errors", "request_id"],
}

# By status: its meaning, and its headers in addition to the common ones.
_PROBLEMS_BY_STATUS: dict[int, tuple[str, tuple[str, ...]]] = {
    400: ("Parameters are missing or invalid: correct the request.", RATE_LIMIT_HEADERS),
    401: ("The key is missing, malformed, unknown, expired or revoked.", ("WWW-Authenticate",)),
    403: ("The key may not read what a parameter names, or not all of what files hold.", RATE_LIMIT_HEADERS),
    404: ("The key may read no such record, or no files are published.", RATE_LIMIT_HEADERS),
    410: ("The token is no longer valid: take a snapshot.", RATE_LIMIT_HEADERS),
    412: ("The file is not the one in If-Match.", RATE_LIMIT_HEADERS),
    414: ("The URL is longer than 8 KiB.", ()),
    416: ("The range lies outside the file.", (*RATE_LIMIT_HEADERS, "Content-Range")),
    429: ("Too many requests: retry after Retry-After seconds.", (*RATE_LIMIT_HEADERS, "Retry-After")),
    431: ("There are too many header fields, or they are too long.", ()),
    503: (
        "The search engine is unavailable or overloaded, or a rebuild is due: retry after Retry-After seconds.",
        (*RATE_LIMIT_HEADERS, "Retry-After"),
    ),
    504: (
        "The deadline has passed: retry after Retry-After seconds, or request less.",
        (*RATE_LIMIT_HEADERS, "Retry-After"),
    ),
}


def problem_statuses(operation: Operation) -> list[int]:
    """Return the error statuses of an operation; 500 is a defect and is not documented."""
    absent = set()
    if COMPANY_PARAMETER not in operation.schema.fields:
        absent.add(403)
    if "{" not in operation.path:
        absent.add(404)
    if "since" not in operation.schema.fields:
        absent.add(410)
    if "{file}" not in operation.path:
        absent |= {412, 416}
    return [status for status in _PROBLEMS_BY_STATUS if status not in absent]


def problem_responses() -> dict[str, dict[str, Any]]:
    """Return the problem response components by name."""
    return {response_name(status): _response(*_PROBLEMS_BY_STATUS[status]) for status in _PROBLEMS_BY_STATUS}


def response_name(status: int) -> str:
    """Return the name of the response component of a status."""
    return f"Problem{status}"


def response_reference(status: int) -> dict[str, str]:
    """Return the reference to the response component of a status."""
    return {"$ref": f"#/components/responses/{response_name(status)}"}


def _response(meaning: str, headers: tuple[str, ...]) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": meaning, "headers": header_references(*COMMON_HEADERS, *headers), "content": content}
