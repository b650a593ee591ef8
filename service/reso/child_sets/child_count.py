"""Counts children without loading their parents, from the numbers of elements that are indexed."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from mappings.resource import Resource
from mappings.stored_document import identifier_from_feed_key
from service.request_context import RequestContext
from service.reso.child_sets.child_rows import ChildSelection
from service.reso.entity_sets.doc_values import read_doc_values
from service.search.query import Body, Clause, Selection, match_none, terms
from service.search.responses import parse_hits, sum_of

# As many as fit a response of a megabyte.
_BATCH_SIZE = 10_000
_SUM = "children"


class _Identifier(NamedTuple):
    id: str


async def count_children(records: ChildSelection) -> int:
    """Return the number of children; those of parents whose children are divided by the filter are read."""
    divided = sorted(records.condition.divided)
    by_number = [
        each.filtered(match_none(terms("_id", divided))) if divided else each for each in records.parents.selections
    ]
    counted = [_count(records, at, selection) for at, selection in enumerate(by_number)]
    return sum(await asyncio.gather(_count_divided(records, divided), *counted))


async def _count_divided(records: ChildSelection, divided: Sequence[str]) -> int:
    if not divided:
        return 0
    parents = await records.named(divided).rows((), len(divided))
    return len(records.children_of(parents))


async def _count(records: ChildSelection, at: int, selection: Selection) -> int:
    call, counted_by = records.parents.call, records.child_set.counted_by
    if at == 0:
        body: Body = {"size": 0, "query": selection.query(), "aggs": {_SUM: {"sum": {"field": counted_by}}}}
        return sum_of(_SUM, await call.search(selection.resource, body))
    first = records.parents.selections[0].resource
    total, numbers = 0, await _numbers(call, selection, counted_by)
    while numbers:
        known, following = await asyncio.gather(
            _known(call, first, [name for name, _ in numbers]), _numbers(call, selection, counted_by, numbers)
        )
        total += sum(number for name, number in numbers if name not in known)
        numbers = following
    return total


async def _numbers(
    call: RequestContext, selection: Selection, counted_by: str, before: Sequence[tuple[str, int]] = ()
) -> list[tuple[str, int]]:
    """Return the next feed keys after a batch, with their numbers of children."""
    if 0 < len(before) < _BATCH_SIZE:
        return []
    following: Clause = {"range": {"feed_key": {"gt": before[-1][0] if before else ""}}}
    body: dict[str, Any] = {
        "size": _BATCH_SIZE,
        "track_total_hits": False,
        "query": selection.filtered(following).query(),
        "sort": ["feed_key"],
        "stored_fields": "_none_",
        "docvalue_fields": [counted_by],
    }
    hits = parse_hits(await call.search(selection.resource, body))
    return [(str(hit["sort"][0]), int(hit["fields"][counted_by][0])) for hit in hits]


async def _known(call: RequestContext, first: Resource, keys: Sequence[str]) -> set[str]:
    """Return those feed keys whose record the first resource has, too."""
    names = {identifier_from_feed_key(key): key for key in keys}
    everything = call.selection(first, (terms("_id", names),))
    body: Body = {"size": len(names), "track_total_hits": False, "query": everything.query()}
    return {names[row.id] for row in await read_doc_values(call, first, body, _Identifier)}
