"""Counts the records of one resource whose key no record of another has, without loading a record."""

import asyncio
from collections.abc import Sequence

from mappings.resource import Resource
from mappings.stored_document import identifier_from_feed_key
from service.request_context import RequestContext
from service.reso.entity_sets.doc_values import count_documents
from service.search.query import Body, Clause, Selection, terms
from service.search.responses import parse_hits

# As many as fit a response of a megabyte.
_BATCH_SIZE = 10_000


async def count_distinct(call: RequestContext, selection: Selection, first: Resource) -> int:
    """Return the number of selected records whose key no record of `first` in the same scope has."""
    distinct, keys = 0, await _feed_keys(call, selection)
    while keys:
        # Read the next keys while these are looked up.
        known, following = await asyncio.gather(_count_known(call, first, keys), _feed_keys(call, selection, keys))
        distinct += len(keys) - known
        keys = following
    return distinct


async def _feed_keys(call: RequestContext, selection: Selection, before: Sequence[str] = ()) -> list[str]:
    """Return the next feed keys after a batch, none if it was the last.

    They are read as sort values, in index order: reading a doc value as well doubles the search time.
    """
    if 0 < len(before) < _BATCH_SIZE:
        return []
    following: Clause = {"range": {"feed_key": {"gt": before[-1] if before else ""}}}
    body: Body = {
        "size": _BATCH_SIZE,
        "track_total_hits": False,
        "query": selection.filtered(following).query(),
        "sort": ["feed_key"],
        "stored_fields": "_none_",
    }
    return [str(hit["sort"][0]) for hit in parse_hits(await call.search(selection.resource, body))]


async def _count_known(call: RequestContext, first: Resource, keys: Sequence[str]) -> int:
    everything = call.selection(first, (terms("_id", map(identifier_from_feed_key, keys)),))
    return await count_documents(call, first, everything.query())
