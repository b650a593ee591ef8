"""Records with `timestamps_only`: identifiers and the two timestamps, read from doc values without the record.

Search responses are decoded into types for the doc values only, compiled from the resource's declaration.
"""

from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

import msgspec

from mappings.fields import underscore
from mappings.resource import Resource

# Doc values come as lists, even single ones, and are absent if the document has none.
_TextValues = tuple[str | None, ...]
_encode = msgspec.json.Encoder().encode


def doc_values(resource: Resource, response: bytes) -> list[Any]:
    """Return the doc values of each hit of a search response, in order.

    Shape: an object with a tuple for each search field that `timestamps_only` reads, such as `id` and `clock`.
    """
    return [hit.fields for hit in _decoder(resource)(response).hits.hits]


def encode_timestamps(resource: Resource, values: Sequence[Any], *, underscored: bool) -> list[bytes]:
    """Return the encoded records for the doc values of hits.

    Shape: the resource's identifiers, `last_updated` (unix seconds of the time that filters use),
    `modification_timestamp` (ISO 8601, from the source).
    """
    record_type = _record_type(resource, underscored=underscored)
    read = attrgetter(*resource.timestamps.values(), "clock", "modified")
    records = [record_type(*[value[0] for value in read(hit)]) for hit in values]
    for record in records:
        record.last_updated //= 1000
    return [_encode(record) for record in records]


@cache
def _values_type(resource: Resource) -> type[msgspec.Struct]:
    texts = dict.fromkeys((*resource.timestamps.values(), "modified"))
    return msgspec.defstruct(
        "Values", [("clock", tuple[int]), *((name, _TextValues, (None,)) for name in texts)], gc=False
    )


@cache
def _record_type(resource: Resource, *, underscored: bool) -> Callable[..., Any]:
    names = [underscore(name) if underscored else name for name in resource.timestamps]
    return msgspec.defstruct("Timestamps", [*names, "last_updated", "modification_timestamp"], gc=False)


@cache
def _decoder(resource: Resource) -> Callable[[bytes], Any]:
    hit = msgspec.defstruct("Hit", [("fields", _values_type(resource))], gc=False)
    hits = msgspec.defstruct("Hits", [("hits", list[hit])])  # type: ignore[valid-type]
    return msgspec.json.Decoder(msgspec.defstruct("SearchResponse", [("hits", hits)])).decode
