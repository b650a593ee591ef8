"""OpenAPI schemas of changes, snapshots and digests."""

from functools import cache

from mappings import LISTING
from mappings.fields import View
from service.examples import example_record
from service.feed.parameters import CHANGE_GROUPS
from service.feed.schemas import (
    AS_OF,
    DIGEST,
    HASH,
    IN_PATH,
    PARAMETERS,
    RESOURCE_NAME,
    SCHEMA_HASH,
    TOKEN,
    Schema,
    object_schema,
)
from service.feed.streaming import NDJSON
from service.http.responses import LINK
from service.openapi.schemas import (
    CACHE_HEADERS,
    NOT_MODIFIED,
    SCHEMA_REFERENCE,
    operation_headers,
)
from service.operation import Operation

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "integer", "minimum": 0}
_PRICE: Schema = {"type": ["integer", "null"]}
_COUNT = _NUMBER | {"description": "The number of records.", "examples": [1]}
_ID = _TEXT | {"description": "The identifier of the record.", "examples": ["L1"]}
_RECORD: Schema = {
    "type": "object",
    "description": "The record in the form of its index, with all optional fields.",
    "examples": [{"PlatformListingId": "L1", "ListPrice": 314500, "Status": "Active"}],
}
_IDENTITY: dict[str, Schema] = {
    "company": _TEXT | {"description": "The key of its company.", "examples": ["summit-crest"]},
    "id": _ID,
    "sequence": _NUMBER
    | {
        "description": "The time of its last change in milliseconds since 1970; a later state has a higher one.",
        "examples": [1795168800123],
    },
    "time": _TEXT
    | {
        "format": "date-time",
        "description": "When the service recorded the change.",
        "examples": ["2026-11-20T10:00:00.123Z"],
    },
}
_EXACT: Schema = {
    "type": "object",
    "description": (
        "Acres and baths as the source has them, of those that the record rounds; absent without any. If only they "
        "change, there is no change."
    ),
    "examples": [{"LotSizeAcres": 0.23}],
}
_CONTENT: dict[str, Schema] = {
    "content": HASH | {"description": "Its content hash, for digests."},
    "exact": _EXACT,
    "record": _RECORD,
}
_WHAT_CHANGED: dict[str, Schema] = {
    "changed": {
        "type": "array",
        "items": _TEXT,
        "description": (
            "The groups of fields that changed since you last read to the end; absent if the record is new to you. "
            f"Any of: {', '.join(CHANGE_GROUPS)}, as far as the resource has them and your key may see them."
        ),
        "examples": [["price"]],
    },
    "previous": {"$ref": SCHEMA_REFERENCE.format("Previous"), "description": "What the change replaced."},
    "first_seen": _TEXT
    | {
        "format": "date-time",
        "description": "When the service first recorded it.",
        "examples": ["2026-11-02T08:15:00.123Z"],
    },
}
_REASON = _TEXT | {
    "description": "Why the record leaves the copy: deleted, deactivated, out_of_scope, off_market or withheld.",
    "examples": ["deleted"],
}


_NULLABLE_LINE: Schema = {"type": ["string", "null"], "examples": ["summit-crest:L1"]}


def _reference(name: str) -> Schema:
    return {"$ref": SCHEMA_REFERENCE.format(name)}


_DIGEST_MEMBERS: dict[str, Schema] = {
    "count": _COUNT,
    "digest": DIGEST,
    "unsettled": _NUMBER
    | {"description": "Documents newer than what is published: compare again later.", "examples": [0]},
}
SCHEMAS: dict[str, Schema] = {
    "Change": object_schema(
        {"resource": RESOURCE_NAME, **_IDENTITY, **_CONTENT, **_WHAT_CHANGED, "reason": _REASON},
        "content",
        "exact",
        "record",
        *_WHAT_CHANGED,
        "reason",
        description="A record in its current state, with content and record, or one that leaves the copy, with reason.",
    ),
    "Previous": object_schema(
        {
            "ListPrice": _PRICE | {"description": "The list price before.", "examples": [329500]},
            "SoldPrice": _PRICE | {"description": "The sold price before.", "examples": [310000]},
            "Status": {"type": ["string", "null"], "description": "The status before.", "examples": ["Active"]},
        },
        *("ListPrice", "SoldPrice", "Status"),
        description="The prices and the status that the last change of their group replaced, if that is named.",
    ),
    "ChangesPage": object_schema(
        {
            "changes": {"type": "array", "items": _reference("Change"), "description": "The changes, in order."},
            "next": TOKEN,
            "at_end": {
                "type": "boolean",
                "description": "True if nothing more was published when the page was read.",
                "examples": [True],
            },
        }
    ),
    "SnapshotHead": object_schema(
        {
            "resource": RESOURCE_NAME,
            "token": TOKEN,
            "as_of": AS_OF,
            "count": _COUNT,
            "schema": SCHEMA_HASH,
            "after": _NULLABLE_LINE | {"description": "The line behind which a resumed snapshot begins."},
        },
        description="The first line.",
    ),
    "SnapshotLine": object_schema({**_IDENTITY, **_CONTENT}, "exact", description="The line of a record."),
    "SnapshotTail": object_schema(
        {
            "count": _COUNT,
            "digest": DIGEST,
            "last": _NULLABLE_LINE | {"description": "The last record, as company:id."},
            "complete": {"type": "boolean", "const": True, "description": "Always true.", "examples": [True]},
        },
        description="The last line; without it the snapshot is incomplete. Count and digest are of this response.",
    ),
    "BucketRecord": object_schema({"id": _ID, "content": _CONTENT["content"]}),
    "Bucket": object_schema(
        {
            "prefix": _TEXT
            | {
                "pattern": "^([0-9a-f]{2}|[0-9a-f]{4})$",
                "description": "The first hexadecimal digits of the hashes of its identifiers.",
                "examples": ["a3"],
            },
            **_DIGEST_MEMBERS,
            "records": {
                "type": "array",
                "items": _reference("BucketRecord"),
                "description": "Its records; present only with `prefixes` of four digits.",
            },
        },
        "records",
    ),
    "Digest": object_schema(
        {
            "resource": RESOURCE_NAME,
            "token": TOKEN,
            **_DIGEST_MEMBERS,
            "buckets": {
                "type": "array",
                "items": _reference("Bucket"),
                "description": "The buckets that are not empty.",
            },
        }
    ),
}

_EXAMPLE_IDENTITY = {
    "company": "summit-crest",
    "id": "L1",
    "sequence": 1795168800123,
    "time": "2026-11-20T10:00:00.123Z",
}
_HEX = "9f86d081884c7d65"
_LINES = [_reference(name) for name in ("SnapshotHead", "SnapshotLine", "SnapshotTail")]
_BODIES: dict[str, tuple[str, str, Schema]] = {
    "/changes": ("What changed.", "application/json", _reference("ChangesPage")),
    "/snapshot/{resource}": ("One record per line.", NDJSON, {"anyOf": _LINES}),
    "/digest/{resource}": ("Counts and digests.", "application/json", _reference("Digest")),
}


@cache
def _examples() -> dict[str, Schema]:
    return {
        "ChangesPage": {
            "changes": [
                {
                    "resource": "listings",
                    **_EXAMPLE_IDENTITY,
                    "content": _HEX,
                    "record": example_record(LISTING, View.INDEX, underscored=False),
                    "changed": ["price"],
                    "previous": {"ListPrice": 450000},
                    "first_seen": "2026-06-21T11:37:47.455Z",
                },
                {"resource": "listings", **_EXAMPLE_IDENTITY, "id": "L2", "reason": "deleted"},
            ],
            "next": "lAHECB89h1GiDMTTzmsChaWBBJMACAg",
            "at_end": True,
        },
        "Digest": {
            "resource": "listings",
            "token": "lAHECB89h1GiDMTTzmsChaWBBJMACAg",
            "count": 1,
            "digest": _HEX,
            "unsettled": 0,
            "buckets": [{"prefix": "a3", "count": 1, "digest": _HEX, "unsettled": 0}],
        },
    }


def responses(operation: Operation) -> dict[str, Schema]:
    """Return the successful responses of an operation, by status; 304 where there is an ETag."""
    response = _response(operation.path)
    unchanged = (
        {"304": {"description": NOT_MODIFIED, "headers": response["headers"]}} if has_etag(operation.path) else {}
    )
    return {"200": response, **unchanged}


def _response(path: str) -> Schema:
    description, content_type, schema = _BODIES[path]
    name = schema.get("$ref", "").rpartition("/")[2]
    shown = {"examples": {name: {"value": _examples()[name]}}} if name else {}
    further = {"/changes": (*CACHE_HEADERS, LINK)}.get(path, CACHE_HEADERS if has_etag(path) else ("Cache-Control",))
    return {
        "description": description,
        "headers": operation_headers(*further),
        "content": {content_type: {"schema": schema, **shown}},
    }


def has_etag(path: str) -> bool:
    """Whether the response has an ETag; a stream is sent before its ETag is known."""
    return _BODIES[path][1] != NDJSON


__all__ = ["IN_PATH", "PARAMETERS", "SCHEMAS", "responses"]  # read by `service.openapi.document`
