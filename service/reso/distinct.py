"""How many records of one resource have a key that no record of another has, counted without reading a record."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mappings.document import identifier_of
from service.answer import hits
from service.query import Selection, terms
from service.reso.places import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mappings.resource import Resource
    from service.operation import Call
    from service.query import Body, Clause

# As many as fit an answer of a megabyte.
_AT_ONCE = 10_000


async def count_distinct(call: Call, selection: Selection, first: Resource) -> int:
    """Return how many records of a selection have a key that no record of `first` in the same scope has."""
    found, keys = 0, await _feed_keys(call, selection)
    while keys:
        # While these are looked for the next ones are read.
        known, following = await asyncio.gather(_known(call, first, keys), _feed_keys(call, selection, keys))
        found += len(keys) - known
        keys = following
    return found


async def _feed_keys(call: Call, selection: Selection, before: Sequence[str] = ()) -> list[str]:
    """Return the feed keys behind some, none where these were the last.

    In the order of the index, and as sort values alone: a doc value beside them doubles the time of the search.
    """
    if 0 < len(before) < _AT_ONCE:
        return []
    behind: Clause = {"range": {"feed_key": {"gt": before[-1] if before else ""}}}
    body: Body = {
        "size": _AT_ONCE,
        "track_total_hits": False,
        "query": selection.restricted(behind).query(),
        "sort": ["feed_key"],
        "stored_fields": "_none_",
    }
    return [str(hit["sort"][0]) for hit in hits(await call.search(selection.resource, body))]


async def _known(call: Call, first: Resource, keys: Sequence[str]) -> int:
    everything = Selection(first, call.scope, (terms("_id", map(identifier_of, keys)),))
    return await count(call, first, everything.query())
