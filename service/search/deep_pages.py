"""Start positions for deep numbered pages, found by counting instead of collecting the records before them.

Elasticsearch collects `from + size` records to return `size`, at about a microsecond each; it counts a hundred times
faster. So a deep page takes three searches: sample some sort keys, count the records before a few keys near the offset,
and read the page from the nearest one. The sample is only a hint: the counts are exact, so the page is the same as with
`from` alone. An update between two of the searches shifts the page by that record, as it does between two pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import isqrt
from typing import TYPE_CHECKING

import orjson

from mappings.index_body import MAX_RESULT_WINDOW
from service.search.query import page_body
from service.search.search_response import parse_hits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from service.search.query import Body, Clause, Selection

    Search = Callable[[Body], Awaitable[bytes]]

# From this offset on, three cheap searches cost less than one that collects all records before it.
DEEP_OFFSET = 10_000
# One record in so many is sampled: `content`, a 64-bit hash, is evenly distributed over all longs.
_SAMPLE_RATE = 256
_MIN_LONG = -(2**63)
_SAMPLE: Clause = {"range": {"content": {"lt": _MIN_LONG + 2**64 // _SAMPLE_RATE}}}
# Enough sampled keys to reach the end of the result window, and about how many of them are counted.
_SAMPLE_SIZE = 2 * MAX_RESULT_WINDOW // _SAMPLE_RATE
_COUNTED_KEYS = 8
# Width of the counted range in standard deviations; that of a number of sampled keys is its square root.
_DEVIATIONS = 3


@dataclass(frozen=True)
class PageStart:
    """A position before a page: the sort key of the next record, None at the very start, and the records before it.

    `total` is the number of all records.
    """

    key: str | None
    before: int
    total: int


async def find_page_start(search: Search, selection: Selection, offset: int) -> PageStart:
    """Return a position shortly before the record at `offset`, counted from 0."""
    body = page_body(selection.filtered(_SAMPLE), _SAMPLE_SIZE)
    hits = parse_hits(await search(body | {"_source": False, "stored_fields": "_none_", "track_total_hits": False}))
    keys = sample_keys_near([hit["sort"][0] for hit in hits], offset)
    return nearest_start(keys, await search(_count_body(selection, keys)), offset)


def sample_keys_near(keys: list[str], offset: int) -> list[str]:
    """Return some of the sampled keys, in order, between which the offset probably lies."""
    expected = offset // _SAMPLE_RATE
    reach = _DEVIATIONS * isqrt(expected) + 1
    near = keys[max(0, expected - reach) : expected + reach]
    return near[:: max(1, len(near) // _COUNTED_KEYS)]


def nearest_start(keys: list[str], count_response: bytes, offset: int) -> PageStart:
    """Return the last key with at most `offset` records before it, by the response to the counting search."""
    counts = orjson.loads(count_response)
    start, before = PageStart(None, 0, counts["hits"]["total"]["value"]), 0
    for index, key in enumerate(keys):
        before += counts["aggregations"]["ranks"]["buckets"][str(index)]["doc_count"]
        if before > offset:
            return start
        start = PageStart(key, before, start.total)
    return start


def _count_body(selection: Selection, keys: list[str]) -> Body:
    """Return the body that counts all records, those before the first key and those between each two keys."""
    field = selection.sort_field
    bounds = [{"lt": keys[0]}, *({"gte": low, "lt": high} for low, high in pairwise(keys))] if keys else []
    filters = {str(index): {"range": {field: bound}} for index, bound in enumerate(bounds)}
    aggregations = {"aggs": {"ranks": {"filters": {"filters": filters}}}} if filters else {}
    return {"size": 0, "query": selection.query(), "track_total_hits": True, **aggregations}


def deep_page_body(selection: Selection, start: PageStart, offset: int, size: int, *, timestamps_only: bool) -> Body:
    """Return the body for the page at `offset`, searched from a position before it."""
    if start.key is not None:
        selection = selection.filtered({"range": {selection.sort_field: {"gte": start.key}}})
    return page_body(selection, size, timestamps_only=timestamps_only) | {
        "from": offset - start.before,
        "track_total_hits": False,
    }
