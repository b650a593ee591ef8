"""OpenAPI schemas of the history of a record."""

from typing import Any

from mappings.fields import underscore
from mappings.history import DICTIONARY_FIELDS
from mappings.record_schema import UNDERSCORED_SUFFIX, value_schema
from service.feed.schemas import Schema, object_schema
from service.http.requests import JSON
from service.openapi.schemas import (
    CACHE_HEADERS,
    IDENTIFIER_SCHEMA,
    NOT_MODIFIED,
    SCHEMA_REFERENCE,
    content_of,
    operation_headers,
)
from service.operation import Operation

_TEXT: Schema = {"type": "string"}
_TIME: Schema = {"type": ["string", "null"], "format": "date-time"}
_VALUES: Schema = {"type": "object"}
_EXAMPLE = {
    "first_seen": "2026-06-21T11:37:47.455Z",
    "PlatformListingId": "L1",
    "OriginalListPrice": 450000,
    "PreviousListPrice": 450000,
    "PriceChangeTimestamp": "2026-11-02T08:15:00.000Z",
    "StatusChangeTimestamp": "2026-11-20T10:00:00.000Z",
    "MajorChangeType": "Pending",
    "MajorChangeTimestamp": "2026-11-20T10:00:00.000Z",
    "OnMarketTimestamp": "2026-06-21T11:30:00.000Z",
    "OffMarketTimestamp": "2026-06-02T17:00:00.000Z",
    "changes": [
        {
            "time": "2026-11-20T10:00:00.000Z",
            "changed": "status",
            "previous": {"Status": "Active"},
            "new": {"Status": "Pending"},
        },
        {
            "time": "2026-11-02T08:15:00.000Z",
            "changed": "price",
            "previous": {"ListPrice": 450000},
            "new": {"ListPrice": 435000},
        },
    ],
}
_FORMS = {"History": False, f"History{UNDERSCORED_SUFFIX}": True}


def _underscored(value: Any) -> Any:
    """Return an example with the names of its members as `underscore_response` spells them, at any depth."""
    if isinstance(value, dict):
        return {underscore(name): _underscored(member) for name, member in value.items()}
    return [_underscored(element) for element in value] if isinstance(value, list) else value


def _history(*, underscored: bool) -> Schema:
    spelled = underscore if underscored else str
    dictionary = {
        spelled(field.name): value_schema(field, underscored=underscored) | {"examples": [_EXAMPLE[field.name]]}
        for field in DICTIONARY_FIELDS
    }
    return object_schema(
        {
            "first_seen": _TEXT
            | {
                "format": "date-time",
                "description": "When the service first recorded the listing; absent for a key that may not see it.",
                "examples": [_EXAMPLE["first_seen"]],
            },
            spelled("PlatformListingId"): _TEXT | {"description": "The identifier.", "examples": ["L1"]},
            **dictionary,
            "changes": {
                "type": "array",
                "items": {"$ref": SCHEMA_REFERENCE.format("HistoryChange")},
                "description": "The changes that the service has seen, the newest first.",
            },
        },
        "first_seen",
        description="The fields of the Data Dictionary are null if nothing is known of them.",
    )


PARAMETERS: dict[type, object] = {}
IN_PATH: dict[str, Schema] = {"platform_listing_id": {"description": "The identifier.", "schema": IDENTIFIER_SCHEMA}}
SCHEMAS: dict[str, Schema] = {
    "HistoryChange": object_schema(
        {
            "time": _TIME | {"description": "When, by the source; null if it has no time."},
            "changed": _TEXT | {"description": "The group of fields: price or status.", "examples": ["price"]},
            "previous": _VALUES | {"description": "What the change replaced.", "examples": [{"ListPrice": 450000}]},
            "new": _VALUES | {"description": "What it set.", "examples": [{"ListPrice": 435000}]},
        },
        description="A change of prices, or of the status.",
    ),
    **{name: _history(underscored=underscored) for name, underscored in _FORMS.items()},
}


def responses(_: Operation) -> dict[str, Schema]:
    """Return the successful responses of an operation, by status."""
    headers = operation_headers(*CACHE_HEADERS)
    examples = {name: _underscored(_EXAMPLE) if underscored else _EXAMPLE for name, underscored in _FORMS.items()}
    return {
        "200": {"description": "The history.", "headers": headers, "content": {JSON: content_of(examples)}},
        "304": {"description": NOT_MODIFIED, "headers": headers},
    }
