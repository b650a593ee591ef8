"""From a declaration to the index body, and the fingerprint by which a stale index is told."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from mappings.fields import Field
    from mappings.resource import Resource

# Numbered pages reach this deep; beyond it a page is refused (decisions, page past the last).
RESULT_WINDOW = 100_000


def mapping(resource: Resource) -> dict[str, object]:
    """Return the strict mapping: the search fields, and the record kept but never parsed."""
    properties: dict[str, object] = {field.name: field.mapping for field in resource.search}
    properties["record"] = {"type": "object", "enabled": False}
    return {"dynamic": "strict", "properties": properties}


def settings() -> dict[str, object]:
    """Return the settings that shape the index and cannot change later.

    One shard answers a page in one round trip. Sorting by the feed key puts a page's records side by side on disk, and
    the doc-values skipper lets the range on that key seek instead of scan. A query for a field that the index does not
    know fails: by default it would match nothing, and an index of an older shape would be answered from as if empty.
    """
    return {
        "index.number_of_shards": 1,
        "index.sort.field": "feed_key",
        "index.sort.order": "asc",
        "index.mapping.use_doc_values_skipper": True,
        "index.max_result_window": RESULT_WINDOW,
        "index.query.parse.allow_unmapped_fields": False,
    }


def index_body(resource: Resource) -> dict[str, object]:
    """Return the body that creates an index of the resource; its fingerprint stands in the mapping's `_meta`."""
    meta = {"resource": resource.alias, "fingerprint": fingerprint(resource)}
    return {"settings": settings(), "mappings": {**mapping(resource), "_meta": meta}}


def fingerprint(resource: Resource) -> str:
    """Return 16 hex digits that change whenever the index body or the stored record's shape does."""
    shape = [settings(), mapping(resource), [_shape(field) for field in resource.stored]]
    return hashlib.sha256(orjson.dumps(shape, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def _shape(field: Field) -> list[object]:
    return [field.name, field.kind.value, [_shape(member) for member in field.members]]
