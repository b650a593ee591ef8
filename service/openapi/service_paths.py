"""What is served beside the operations, without a key: the probes, and the document itself."""

from __future__ import annotations

from typing import Any

from service.openapi import problems
from service.openapi.headers import OF_A_BODY, OF_EVERY_ANSWER, references
from service.openapi.nested import REFERENCE

SERVICE_TAG = "Service"
# What a request is refused with before anybody looks at where it goes.
_OF_ANY_REQUEST = (400, 414, 431)

_TEXT = {"type": "string"}
_CHECK = {
    "type": "object",
    "title": "Check",
    "properties": dict.fromkeys(("subject", "state", "problem"), _TEXT),
    "required": ["subject", "state"],
}
STATE: dict[str, Any] = {
    "type": "object",
    "properties": {
        # No `enum`: clients that are generated from one refuse the word that a later version adds.
        "status": _TEXT | {"description": "One of: ok, ready, not ready, starting, started."},
        "reason": _TEXT,
        "age_seconds": {"type": ["number", "null"]},
        "checks": {"type": "array", "items": _CHECK},
    },
    "required": ["status"],
}
_VERBOSE = {
    "in": "query",
    "name": "verbose",
    "description": "1, true or nothing: tell what every check found. All else is ignored.",
    "schema": _TEXT,
}


def _unguarded(
    operation_id: str, summary: str, responses: dict[str, Any], *parameters: dict[str, Any]
) -> dict[str, Any]:
    return {
        "tags": [SERVICE_TAG],
        "operationId": operation_id,
        "summary": summary,
        "security": [],
        "parameters": list(parameters),
        "responses": responses | {str(status): problems.reference(status) for status in _OF_ANY_REQUEST},
    }


def _probe(operation_id: str, summary: str, *statuses: int, verbose: bool = False) -> dict[str, Any]:
    responses = {
        str(status): {
            "description": "Yes." if status == 200 else "No, and why.",
            "headers": references(*OF_EVERY_ANSWER),
            "content": {"application/json": {"schema": {"$ref": REFERENCE.format("ProbeState")}}},
        }
        for status in statuses
    }
    described = _unguarded(operation_id, summary, responses, *([_VERBOSE] if verbose else []))
    # Beside the operations, not below their root.
    return described | {"servers": [{"url": "/"}]}


_DOCUMENT = {
    "200": {
        "description": "An OpenAPI 3.1 document.",
        "headers": references(*OF_EVERY_ANSWER, *OF_A_BODY),
        "content": {"application/json": {"schema": {"type": "object", "required": ["openapi", "info", "paths"]}}},
    },
    "304": {
        "description": "The document is the one whose ETag was sent.",
        "headers": references(*OF_EVERY_ANSWER, *OF_A_BODY),
    },
}

SERVICE_PATHS: dict[str, dict[str, Any]] = {
    "/openapi.json": _unguarded("describe", "Answer this document", _DOCUMENT),
    "/livez": _probe("live", "Tell whether the process answers", 200),
    "/readyz": _probe("ready", "Tell whether the process should be sent requests", 200, 503, verbose=True),
    "/startupz": _probe("started", "Tell whether the process has ever been ready", 200, 503),
}
