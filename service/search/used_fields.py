"""The search fields that a search body uses: to filter, to sort, and to read values back.

With a field that the index lacks a search would match nothing, or return no value, unless Elasticsearch refuses it.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

# Queries whose only key is a field. An aggregation of the same name has options instead, `field` among them.
_FIELD_QUERIES = frozenset({"term", "terms", "range", "wildcard"})
_FIELD = "field"
# Members that list fields; `sort` may also list objects with a field as their only key.
_FIELD_LISTS = frozenset({"sort", "docvalue_fields", "_source"})


class MissingFields(NamedTuple):
    """Search fields that the live index of a resource lacks until it is rebuilt."""

    resource: str
    fields: frozenset[str]


def used_fields(body: object) -> Iterator[str]:
    """Yield the names of the fields that a search body uses, with repetitions."""
    if isinstance(body, Mapping):
        for key, value in body.items():
            yield from _fields_of_member(key, value)
            yield from used_fields(value)
    elif isinstance(body, list | tuple):
        for element in body:
            yield from used_fields(element)


def _fields_of_member(key: str, value: object) -> Iterator[str]:
    if key in _FIELD_QUERIES and isinstance(value, Mapping):
        yield from (name for name in value if _FIELD not in value)
    elif key == _FIELD and isinstance(value, str):
        yield value
    elif key in _FIELD_LISTS and isinstance(value, list | tuple):
        for element in value:
            yield from element if isinstance(element, Mapping) else (str(element),)
