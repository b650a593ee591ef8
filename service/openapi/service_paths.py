"""The paths that need no key: the probes, and the document itself."""

from typing import Any

from service.openapi import problem_responses
from service.openapi.header_components import CACHE_HEADERS, COMMON_HEADERS, header_references
from service.openapi.nested_schemas import SCHEMA_REFERENCE

SERVICE_TAG = "Service"
# Errors that are detected before routing.
_EARLY_STATUSES = (400, 414, 431)

_TEXT = {"type": "string"}
# Not below `/v1`.
_AT_SERVER_ROOT = {"servers": [{"url": "/"}]}
_CHECK = {
    "type": "object",
    "title": "Check",
    "properties": dict.fromkeys(("subject", "state", "problem"), _TEXT),
    "required": ["subject", "state"],
}
PROBE_STATE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        # No `enum`: generated clients reject values that a later version adds.
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
    "description": "1, true or an empty value: include the result of every check. Other values are ignored.",
    "schema": _TEXT,
}


def _public_operation(
    operation_id: str, summary: str, description: str, responses: dict[str, Any], *parameters: dict[str, Any]
) -> dict[str, Any]:
    return {
        "tags": [SERVICE_TAG],
        "operationId": operation_id,
        "summary": summary,
        "description": description,
        "security": [],
        "parameters": list(parameters),
        "responses": responses
        | {str(status): problem_responses.response_reference(status) for status in _EARLY_STATUSES},
    }


def _probe(operation_id: str, summary: str, description: str, *statuses: int, verbose: bool = False) -> dict[str, Any]:
    responses = {
        str(status): {
            "description": "Yes." if status == 200 else "No, with the reason.",
            "headers": header_references(*COMMON_HEADERS),
            "content": {"application/json": {"schema": {"$ref": SCHEMA_REFERENCE.format("ProbeState")}}},
        }
        for status in statuses
    }
    described = _public_operation(operation_id, summary, description, responses, *([_VERBOSE] if verbose else []))
    return described | _AT_SERVER_ROOT


_INDEX_SCHEMA = {
    "type": "object",
    "properties": {
        "documentation": _TEXT,
        "openapi": _TEXT,
        "resources": {"type": "array", "items": _TEXT},
    },
    "required": ["documentation", "openapi", "resources"],
}
_INDEX = {
    "200": {
        "description": "The paths of the documentation, of this document and of the collections.",
        "headers": header_references(*COMMON_HEADERS),
        "content": {"application/json": {"schema": _INDEX_SCHEMA}},
    },
    "303": {"description": "The documentation, for browsers.", "headers": header_references(*COMMON_HEADERS)},
}
_DOCUMENT = {
    "200": {
        "description": "An OpenAPI 3.1 document.",
        "headers": header_references(*COMMON_HEADERS, *CACHE_HEADERS),
        "content": {"application/json": {"schema": {"type": "object", "required": ["openapi", "info", "paths"]}}},
    },
    "304": {
        "description": "The document is the one whose ETag was sent.",
        "headers": header_references(*COMMON_HEADERS, *CACHE_HEADERS),
    },
}

_INDEX_DESCRIPTION = "Needs no key. A browser, which accepts HTML, is led to the documentation instead."
_DOCUMENT_DESCRIPTION = "The OpenAPI description of this API. Needs no key."
_LIVE_DESCRIPTION = "For liveness checks: no other system is asked."
_READY_DESCRIPTION = "For load balancers: 503 while data or keys cannot be read, and before a shutdown."
_STARTED_DESCRIPTION = "For startup checks: stays 200 once the process was ready, whatever becomes of Elasticsearch."

SERVICE_PATHS: dict[str, dict[str, Any]] = {
    "/": _public_operation("index", "List the resources", _INDEX_DESCRIPTION, _INDEX) | _AT_SERVER_ROOT,
    "/openapi.json": _public_operation("describe", "Get this document", _DOCUMENT_DESCRIPTION, _DOCUMENT),
    "/livez": _probe("live", "Check whether the process responds", _LIVE_DESCRIPTION, 200),
    "/readyz": _probe(
        "ready", "Check whether the process is ready for requests", _READY_DESCRIPTION, 200, 503, verbose=True
    ),
    "/startupz": _probe("started", "Check whether the process has ever been ready", _STARTED_DESCRIPTION, 200, 503),
}
