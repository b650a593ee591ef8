"""The answers of the feed, as schemas with examples (decision 12)."""

from __future__ import annotations

from typing import Any

from mappings import LISTING
from mappings.fields import View
from service.feed.streaming import CONTENT_TYPE
from service.headers import LINK
from service.openapi import examples
from service.openapi.headers import OF_A_BODY, OF_A_KEY, OF_AN_OPERATION, OF_EVERY_ANSWER, references
from service.openapi.nested import REFERENCE
from service.parameters.feed import NAMES

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_HASH: Schema = {"type": "string", "pattern": "^[0-9a-f]{16}$"}
_TOKEN: Schema = _TEXT | {"description": "Where to go on: send it as since of /changes."}
# No `enum`: clients that are generated from one refuse the word that a later version adds.
_RESOURCE: Schema = _TEXT | {"description": f"One of: {', '.join(NAMES)}."}
_RECORD: Schema = {
    "type": "object",
    "description": "The record in the form of its index, with everything that a flag would bring.",
}
_IDENTITY: dict[str, Schema] = {
    "company": _TEXT | {"description": "The key of its company."},
    "id": _TEXT | {"description": "The identifier of the record."},
    "sequence": _COUNT | {"description": "The place of its last change among those of its resource."},
    "time": _TEXT | {"format": "date-time", "description": "When the service took note of the change."},
}
_CONTENT: dict[str, Schema] = {"content": _HASH | {"description": "Its content hash, for digests."}, "record": _RECORD}
_REASON = _TEXT | {
    "description": "Why the record is not kept any more: deleted, deactivated, out_of_scope or off_market."
}


def _object(properties: dict[str, Schema], *optional: str, description: str = "") -> Schema:
    required = [name for name in properties if name not in optional]
    told = {"description": description} if description else {}
    return {"type": "object", **told, "properties": properties, "required": required}


def _reference(name: str) -> Schema:
    return {"$ref": REFERENCE.format(name)}


_SUM: dict[str, Schema] = {
    "count": _COUNT,
    "digest": _HASH | {"description": "The sum of the hashes of the records, modulo 2**64."},
    "unsettled": _COUNT | {"description": "Documents ahead of what is published: compare again later."},
}
SCHEMAS: dict[str, Schema] = {
    "Change": _object(
        {"resource": _RESOURCE, **_IDENTITY, **_CONTENT, "reason": _REASON},
        "content",
        "record",
        "reason",
        description="A record as it is now, with content and record; or one that is not kept any more, with a reason.",
    ),
    "ChangesPage": _object(
        {
            "changes": {"type": "array", "items": _reference("Change")},
            "next": _TOKEN,
            "at_end": {"type": "boolean", "description": "Nothing more was published when the page was made."},
        }
    ),
    "SnapshotHead": _object(
        {
            "resource": _RESOURCE,
            "token": _TOKEN,
            "as_of": _TEXT | {"format": "date-time"},
            "count": _COUNT,
            "schema": _HASH,
            "after": {"type": ["string", "null"]},
        }
    ),
    "SnapshotLine": _object({**_IDENTITY, **_CONTENT}),
    "SnapshotTail": _object(
        {
            "count": _COUNT,
            "digest": _HASH,
            "last": {"type": ["string", "null"]},
            "complete": {"type": "boolean", "const": True},
        },
        description="The last line; without it the snapshot is not whole. Count and digest are of this answer.",
    ),
    "BucketRecord": _object({"id": _TEXT, "content": _HASH}),
    "Bucket": _object(
        {
            "prefix": _TEXT | {"pattern": "^([0-9a-f]{2}|[0-9a-f]{4})$"},
            **_SUM,
            "records": {"type": "array", "items": _reference("BucketRecord")},
        },
        "records",
    ),
    "Digest": _object(
        {
            "resource": _RESOURCE,
            "token": _TOKEN,
            **_SUM,
            "buckets": {"type": "array", "items": _reference("Bucket"), "description": "Those that are not empty."},
        }
    ),
}

_PLACE = {"company": "summit-crest", "id": "L1", "sequence": 12, "time": "2026-11-20T10:00:00.123Z"}
_LISTING = examples.record(LISTING, View.INDEX, underscored=False)
_HEX = "9f86d081884c7d65"
_EXAMPLES: dict[str, Schema] = {
    "ChangesPage": {
        "changes": [
            {
                "resource": "listings",
                **_PLACE,
                "content": _HEX,
                "record": examples.record(LISTING, View.INDEX, underscored=False),
            },
            {"resource": "listings", **_PLACE, "id": "L2", "sequence": 13, "reason": "deleted"},
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
_LINES = [_reference(name) for name in ("SnapshotHead", "SnapshotLine", "SnapshotTail")]
_BODIES: dict[str, tuple[str, str, Schema]] = {
    "/changes": ("What changed.", "application/json", _reference("ChangesPage")),
    "/snapshot/{resource}": ("A line each.", CONTENT_TYPE, {"anyOf": _LINES}),
    "/digest/{resource}": ("The sums.", "application/json", _reference("Digest")),
}


def answer(path: str) -> Schema:
    """Return the response 200 of an operation of the feed."""
    description, content_type, schema = _BODIES[path]
    name = schema.get("$ref", "").rpartition("/")[2]
    shown = {"examples": {name: {"value": _EXAMPLES[name]}}} if name else {}
    further = {"/changes": (*OF_A_BODY, LINK)}.get(path, OF_A_BODY if is_tagged(path) else ("Cache-Control",))
    return {
        "description": description,
        "headers": references(*OF_EVERY_ANSWER, *OF_AN_OPERATION, *OF_A_KEY, *further),
        "content": {content_type: {"schema": schema, **shown}},
    }


def is_tagged(path: str) -> bool:
    """Tell whether an answer has an ETag: a stream is sent before it is known."""
    return _BODIES[path][1] != CONTENT_TYPE
