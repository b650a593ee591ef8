"""Deep numbered pages, found by counting instead of collecting the records before them.

Elasticsearch collects `from + size` records to return `size`, at about a microsecond each; it counts a hundred times
faster. So a deep page takes three searches: sample some sort keys around the offset, count the records between them,
and read the page between the two keys around it. The sample is only a hint: the counts are exact, so the page is the
same as with `from` alone. An update between two of the searches shifts the page by that record, as it does between two
pages.
"""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import isqrt
from typing import Any

import orjson

from mappings.digest import BUCKETS
from service.search.query import Body, Clause, Selection, page_body
from service.search.responses import parse_hits, total_hits

Search = Callable[[Body], Awaitable[bytes]]

# From this offset on, three cheap searches cost less than one that collects all records before it.
DEEP_OFFSET = 10_000
# One record in so many is sampled: by its bucket, an indexed hash of its identifier, so that no other is visited.
_SAMPLE_RATE = 256
_SAMPLE: Clause = {"range": {"bucket": {"lt": BUCKETS // _SAMPLE_RATE}}}
# About how many of the sampled keys around the offset are counted.
_COUNTED_KEYS = 8
# Width of the counted range in standard deviations; that of a number of sampled keys is its square root.
_DEVIATIONS = 3


@dataclass(frozen=True)
class PageStart:
    """A position before a page: the sort key of the next record, None at the very start, and the records before it.

    `total` is the number of all records. `later` are the counted keys after the offset, in order, each with the records
    before it.
    """

    key: str | None
    before: int
    total: int
    later: tuple[tuple[str, int], ...] = ()

    def end(self, offset: int) -> str | None:
        """Return the first counted key that the record before `offset` precedes, None if there is none."""
        return next((key for key, before in self.later if before >= offset), None)


async def search_deep_page(
    search: Search, selection: Selection, offset: int, size: int, *, timestamps_only: bool
) -> tuple[bytes, int]:
    """Return the response with the records from `offset`, counted from 0, and the number of all records."""
    start = await find_page_start(search, selection, offset)
    response = await search(deep_page_body(selection, start, offset, size, timestamps_only=timestamps_only))
    if start.end(offset + size) is not None and total_hits(response) < offset - start.before + size:
        # Records have gone since they were counted: the page continues beyond the end.
        endless = replace(start, later=())
        response = await search(deep_page_body(selection, endless, offset, size, timestamps_only=timestamps_only))
    return response, start.total


async def find_page_start(search: Search, selection: Selection, offset: int) -> PageStart:
    """Return a position shortly before the record at `offset`."""
    near = sample_near(offset)
    body = page_body(selection.filtered(_SAMPLE), len(near)) | {"from": near.start, "track_total_hits": False}
    hits = parse_hits(await search(body | {"_source": False, "stored_fields": "_none_"}))
    keys = [hit["sort"][0] for hit in hits]
    counted = keys[:: max(1, len(keys) // _COUNTED_KEYS)]
    return nearest_start(counted, await search(_count_body(selection, counted)), offset)


def sample_near(offset: int) -> range:
    """Return which of the sampled keys to read: the offset probably lies between the first and the last."""
    expected = offset // _SAMPLE_RATE
    reach = _DEVIATIONS * isqrt(expected) + 1
    return range(max(0, expected - reach), expected + reach)


def nearest_start(keys: list[str], count_response: bytes, offset: int) -> PageStart:
    """Return the last key with at most `offset` records before it, by the response to the counting search."""
    response = orjson.loads(count_response)
    ranks = [*accumulate(_counts(response["aggregations"]))] if keys else []
    counted, at = tuple(zip(keys, ranks, strict=True)), bisect_right(ranks, offset)
    key, before = counted[at - 1] if at else (None, 0)
    return PageStart(key, before, response["hits"]["total"]["value"], counted[at:])


def _counts(aggregations: dict[str, Any]) -> Iterator[int]:
    """Yield the numbers of records before the first key and between each two."""
    yield aggregations["before"]["doc_count"]
    if "near" in aggregations:
        buckets = aggregations["near"]["ranks"]["buckets"]
        yield from (buckets[str(at)]["doc_count"] for at in range(len(buckets)))


def _count_body(selection: Selection, keys: list[str]) -> Body:
    """Return the body that counts all records, those before the first key and those between each two keys."""
    aggregations = {"aggs": _count_aggregations(selection.sort_field, keys)} if keys else {}
    return {"size": 0, "query": selection.query(), "track_total_hits": True, **aggregations}


def _count_aggregations(field: str, keys: list[str]) -> Body:
    """Compare each record with the first and the last key, and only the records between them with the other keys."""
    gaps = {str(at): _between(field, *pair) for at, pair in enumerate(pairwise(keys))}
    near = {"filter": _between(field, keys[0], keys[-1]), "aggs": {"ranks": {"filters": {"filters": gaps}}}}
    return {"before": {"filter": _between(field, None, keys[0])}, **({"near": near} if gaps else {})}


def _between(field: str, first: str | None, end: str | None) -> Clause:
    """Match the records from `first` on, up to but without `end`; None leaves that side open."""
    return {"range": {field: {name: key for name, key in (("gte", first), ("lt", end)) if key is not None}}}


def deep_page_body(selection: Selection, start: PageStart, offset: int, size: int, *, timestamps_only: bool) -> Body:
    """Return the body for the page at `offset`, searched between a position before it and one after it."""
    end = start.end(offset + size)
    if start.key is not None or end is not None:
        selection = selection.filtered(_between(selection.sort_field, start.key, end))
    return page_body(selection, size, timestamps_only=timestamps_only) | {
        "from": offset - start.before,
        "track_total_hits": end is not None,
    }
