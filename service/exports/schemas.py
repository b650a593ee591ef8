"""OpenAPI schemas of published files."""

from service.exports.publications import MEDIA_TYPES
from service.feed.schemas import AS_OF, DIGEST, PARAMETERS, RESOURCE_NAME, SCHEMA_HASH, TOKEN, Schema, object_schema
from service.feed.schemas import IN_PATH as FEED_IN_PATH
from service.http.requests import JSON
from service.openapi.schemas import (
    CACHE_HEADERS,
    FILE_HEADERS,
    IDENTIFIER_SCHEMA,
    NOT_MODIFIED,
    SCHEMA_REFERENCE,
    content_of,
    operation_headers,
)
from service.operation import Operation

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_FILES = "PublishedFiles"
_MOVED = (
    "The file is in an object store. Follow `Location` with `Range`, but without the key and `If-Range`. To resume, "
    "request the file here again. HEAD gets 200."
)
_REDIRECT = (*FILE_HEADERS, "Location")
SCHEMAS: dict[str, Schema] = {
    "PublishedFile": object_schema(
        {
            "href": _TEXT | {"description": "The path and query to download it from, without the key."},
            # No `enum`: generated clients reject values that a later version adds.
            "format": _TEXT | {"description": f"One of: {', '.join(MEDIA_TYPES)}. Skip files of other formats."},
            "bytes": _COUNT | {"description": "Its size."},
            "records": _COUNT | {"description": "Records, or rows of its table."},
            "sha256": _TEXT | {"pattern": "^[0-9a-f]{64}$", "description": "Its SHA-256, in hexadecimal digits."},
            "last": _TEXT
            | {
                "description": "Its last record, as company:id.<!-- with changes --> Records are in the order of a "
                "snapshot.<!-- end -->"
            },
            "table": _TEXT | {"description": "The table with its rows: the resource, or a list in its records."},
        }
    ),
    _FILES: object_schema(
        {
            "resource": RESOURCE_NAME,
            "company": _TEXT | {"description": "The key of the company."},
            "token": TOKEN,
            "as_of": AS_OF,
            "published": _TEXT | {"format": "date-time", "description": "When the files were published."},
            "schema": SCHEMA_HASH,
            "records": _COUNT | {"description": "The number of records."},
            "digest": DIGEST,
            "files": {
                "type": "array",
                "items": {"$ref": SCHEMA_REFERENCE.format("PublishedFile")},
                "description": "The files with all records.",
            },
            "changes": {
                "type": ["array", "null"],
                "items": {"$ref": SCHEMA_REFERENCE.format("PublishedFile")},
                "description": "With `since`: files of changes in order, from that token to `token`. Null if there are "
                "none<!-- with changes -->: use `/changes`<!-- end -->.",
            },
        },
        description="All records of one company's resource at one moment.",
    ),
}
_NAME = "20261124T021500123456Z-5f0c9a1e-00001.ndjson.zst"
_EXAMPLE = {
    "resource": "listings",
    "company": "summit-crest",
    "token": "lAHECB89h1GiDMTTzmsChaWBBJMACAg",
    "as_of": "2026-11-24T02:14:59.204Z",
    "published": "2026-11-24T02:15:00Z",
    "schema": "9f86d081884c7d65",
    "records": 200_000,
    "digest": "9f86d081884c7d65",
    "files": [
        {
            "href": f"/v1/exports/listings/{_NAME}?platform_company_id=summit-crest",
            "format": "ndjson.zst",
            "bytes": 214_572_811,
            "records": 200_000,
            "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "last": "summit-crest:L999",
            "table": "listings",
        }
    ],
    "changes": None,
}


def is_file(operation: Operation) -> bool:
    return "{file}" in operation.path


def responses(operation: Operation) -> dict[str, Schema]:
    """Return the successful responses of an operation, by status, and 304."""
    successful = _successful(operation)
    return {**successful, "304": {"description": NOT_MODIFIED, "headers": successful["200"]["headers"]}}


def _successful(operation: Operation) -> dict[str, Schema]:
    if is_file(operation):
        body = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in MEDIA_TYPES.values()}
        part = _response("The requested bytes.", *FILE_HEADERS, "Content-Range")
        whole = _response("The file.", *FILE_HEADERS)
        return {"200": whole | {"content": body}, "206": part | {"content": body}, "307": _response(_MOVED, *_REDIRECT)}
    return {"200": _response("The files.", *CACHE_HEADERS) | {"content": {JSON: content_of({_FILES: _EXAMPLE})}}}


def _response(description: str, *headers: str) -> Schema:
    return {"description": description, "headers": operation_headers(*headers)}


IN_PATH: dict[str, Schema] = FEED_IN_PATH | {
    "file": {
        "description": "The name of a file, as the list of files has it.",
        "schema": IDENTIFIER_SCHEMA,
    },
}

__all__ = ["IN_PATH", "PARAMETERS", "SCHEMAS", "responses"]  # read by `service.openapi.document`
