"""The indices of a resource: their names, their body, and the fingerprint that detects a stale one.

Each resource has an alias, and numbered generations behind it (`listings-v0007`).
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache

import orjson

from mappings.fields import Field
from mappings.resource import Resource
from mappings.shards import ONE_SHARD, ShardRanges
from mappings.stored_document import EXACT

_GENERATION = re.compile(r"(?P<alias>[a-z][a-z0-9_-]*)-v(?P<number>\d{4,})")


@dataclass(frozen=True, order=True)
class Generation:
    """One build of a resource's index. Generations of an alias sort by number."""

    alias: str
    number: int

    def __str__(self) -> str:
        return f"{self.alias}-v{self.number:04d}"


def served_alias(index: str) -> str:
    """Return the alias that a generation of several shards has only while it is live: `listings-served-v0008`."""
    alias, _, number = index.rpartition("-")
    return f"{alias}-served-{number}"


def served_pattern(alias: str) -> str:
    """Return a pattern for these aliases of all generations, as in the names of a role: `listings-served-*`."""
    return f"{alias}-served-*"


def parse_generation(index: str) -> Generation | None:
    match = _GENERATION.fullmatch(index)
    if match is None:
        return None
    generation = Generation(match["alias"], int(match["number"]))
    return generation if str(generation) == index else None


# The block that a live index has while Elasticsearch copies it, and the note of it in the mapping's `_meta`: the copy
# that is being made, null without one.
BLOCK_SETTING, BLOCK_NOTE = "index.blocks.write", "blocked_for"
# Numbered pages reach this deep; beyond it a page is refused (decisions, page past the last).
MAX_RESULT_WINDOW = 100_000


# Only in an index of several shards (`mappings.shards`).
_SHARD_FIELDS: dict[str, object] = {"hidden": {"type": "long_range", "doc_values": False}, "left": {"type": "boolean"}}


def index_mapping(resource: Resource, ranges: ShardRanges = ONE_SHARD) -> dict[str, object]:
    """Return the strict mapping: the search fields, and the objects that are stored but not parsed."""
    properties: dict[str, object] = {field.name: field.mapping for field in resource.indexed_fields}
    properties |= {name: {"type": "object", "enabled": False} for name in _unparsed_objects(resource)}
    if ranges is ONE_SHARD or not ranges.is_routed:
        return {"dynamic": "strict", "properties": properties}
    return {"dynamic": "strict", "_routing": {"required": True}, "properties": properties | _SHARD_FIELDS}


def _unparsed_objects(resource: Resource) -> tuple[str, ...]:
    return (EXACT, "record") if resource.exact_names else ("record",)


def mapped_names(resource: Resource, ranges: ShardRanges = ONE_SHARD) -> set[str]:
    """Return the names of all members of a document: search fields and objects."""
    own = {*(field.name for field in resource.indexed_fields), *_unparsed_objects(resource)}
    return own | _SHARD_FIELDS.keys() if ranges.is_routed else own


def index_settings(ranges: ShardRanges = ONE_SHARD) -> dict[str, object]:
    """Return the settings that shape the index and cannot change later.

    A page of one company is served by one shard, in one round trip. Sorting by the feed key puts a page's records
    side by side on disk, and the doc-values skipper lets the range on that key seek instead of scan. A query for an
    unmapped field fails: by default it would match nothing, and an index of an older schema would look empty.
    """
    return {
        "index.number_of_shards": ranges.count,
        **({"index.number_of_routing_shards": ranges.count} if ranges.is_routed else {}),
        "index.sort.field": "feed_key",
        "index.sort.order": "asc",
        "index.mapping.use_doc_values_skipper": True,
        "index.max_result_window": MAX_RESULT_WINDOW,
        "index.query.parse.allow_unmapped_fields": False,
    }


def index_body(resource: Resource, ranges: ShardRanges = ONE_SHARD) -> dict[str, object]:
    """Return the body that creates an index of the resource; fingerprint and ranges are in the mapping's `_meta`."""
    meta = {"resource": resource.alias, "fingerprint": schema_fingerprint(resource), **ranges.meta}
    return {"settings": index_settings(ranges), "mappings": {**index_mapping(resource, ranges), "_meta": meta}}


@cache
def schema_fingerprint(resource: Resource) -> str:
    """Return 16 hex digits that change whenever the index body or the stored record's shape does.

    The number of shards does not change it.
    """
    shape = [index_settings(), index_mapping(resource), [_field_shape(field) for field in resource.stored]]
    return hashlib.sha256(orjson.dumps(shape, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def _field_shape(field: Field) -> list[object]:
    return [field.name, field.kind.value, [_field_shape(member) for member in field.members]]
