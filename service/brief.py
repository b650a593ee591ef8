"""Records under `timestamps_only`: identifiers and the two clocks, read from doc values without the record.

An answer is decoded into types that take the doc values alone, compiled from the resource's declaration.
"""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from mappings.naming import underscore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mappings.resource import Resource

# Doc values come in lists, though there is one of each; none comes where the document has none.
_Texts = tuple[str | None, ...]
_encode = msgspec.json.Encoder().encode


def doc_values(resource: Resource, answer: bytes) -> list[Any]:
    """Return the doc values of each hit of a search answer, in order.

    Shape: an object with a tuple for each search field that `timestamps_only` asks for, such as `id` and `clock`.
    """
    return [hit.fields for hit in _decoder(resource)(answer).hits.hits]


def briefs(resource: Resource, values: Sequence[Any], *, underscored: bool) -> list[bytes]:
    """Return the encoded records of hits, by their doc values.

    Shape: the resource's identifiers, `last_updated` (unix seconds of the filter clock), `modification_timestamp`
    (ISO 8601 of the source).
    """
    brief = _brief_type(resource, underscored=underscored)
    read = attrgetter(*resource.timestamps.values(), "clock", "modified")
    made = [brief(*[value[0] for value in read(one)]) for one in values]
    for one in made:
        one.last_updated //= 1000
    return [_encode(one) for one in made]


@cache
def _values_type(resource: Resource) -> type[msgspec.Struct]:
    texts = dict.fromkeys((*resource.timestamps.values(), "modified"))
    return msgspec.defstruct("Values", [("clock", tuple[int]), *((name, _Texts, (None,)) for name in texts)], gc=False)


@cache
def _brief_type(resource: Resource, *, underscored: bool) -> Callable[..., Any]:
    """Return the type of an answered record."""
    names = [underscore(name) if underscored else name for name in resource.timestamps]
    return msgspec.defstruct("Brief", [*names, "last_updated", "modification_timestamp"], gc=False)


@cache
def _decoder(resource: Resource) -> Callable[[bytes], Any]:
    hit = msgspec.defstruct("Hit", [("fields", _values_type(resource))], gc=False)
    hits = msgspec.defstruct("Hits", [("hits", list[hit])])  # type: ignore[valid-type]
    return msgspec.json.Decoder(msgspec.defstruct("Answer", [("hits", hits)])).decode
