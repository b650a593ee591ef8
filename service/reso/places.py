"""Documents by their search fields alone: where they are, how many there are, and which say that a record has gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from mappings.digest import bucket
from mappings.document import split_id
from service.answer import hits, total
from service.errors import InvalidRequest
from service.query import term, terms, within
from service.reso.options import FILTER

if TYPE_CHECKING:
    from collections.abc import Collection

    from mappings.resource import Resource
    from service.operation import Call
    from service.query import Body, Clause

Fields = TypeVar("Fields", bound=NamedTuple)

_MOST_CANDIDATES = 10_000


class Place(NamedTuple):
    """The `_id` of a document and its sequence."""

    id: str
    sequence: int


async def read_places(call: Call, resource: Resource, body: Body, place: type[Fields]) -> list[Fields]:
    """Return where the documents are that a search finds, from doc values: no record is touched.

    `place` is a named tuple of search fields.
    """
    brief = {"stored_fields": "_none_", "docvalue_fields": list(place._fields)}
    answer = await call.search(resource, body | brief)
    return [place._make(hit["fields"][name][0] for name in place._fields) for hit in hits(answer)]


async def count(call: Call, resource: Resource, query: Clause) -> int:
    """Return how many documents match."""
    return total(await call.search(resource, {"size": 0, "track_total_hits": True, "query": query}))


async def departures(call: Call, resource: Resource, keys: Collection[str]) -> dict[str, list[str]]:
    """Return by key the ids of the documents that say that records with these keys have left a company of the scope.

    Their ids hold a company that nobody names, but they lie in the buckets of the keys: of tombstones a few a key.
    """
    candidates = [*within(call.scope), term("deleted", value=True), terms("bucket", sorted(set(map(bucket, keys))))]
    body: Body = {
        "size": _MOST_CANDIDATES,
        "track_total_hits": False,
        "query": {"bool": {"filter": candidates}},
        "sort": ["sequence"],
    }
    places = await read_places(call, resource, body, Place)
    if len(places) == _MOST_CANDIDATES:
        raise InvalidRequest.of(FILTER, "compares too many keys: ask for fewer at a time.")
    found: dict[str, list[str]] = {}
    for place in places:
        company, key = split_id(place.id)
        if company and key in keys:
            found.setdefault(key, []).append(place.id)
    return found
