"""Where a page by number begins: found by counting, so that the records in front of it need not be collected.

Elasticsearch keeps `from + size` records in order to give out `size`, about a microsecond for each. It counts a hundred
times faster. So a deep page is asked for in three steps: the keys of some records as marks, how many records lie before
a few marks round the place, and the page behind the nearest one. The marks are hints: wherever they lie, the count says
which records are in front, and the page is the one that `from` alone would give. An update between two steps shifts the
page by that record, as it does between two pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import isqrt
from typing import TYPE_CHECKING

import orjson

from mappings.index import RESULT_WINDOW
from service.answer import hits
from service.query import page_body

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from service.query import Body, Clause, Selection

    Search = Callable[[Body], Awaitable[bytes]]

# From here on three cheap searches cost less than one that collects all in front.
DEEP = 10_000
# One record in so many is a mark: `content`, a hash in 64 bits, is spread evenly over all longs.
_RATE = 256
_LOWEST = -(2**63)
_SAMPLE: Clause = {"range": {"content": {"lt": _LOWEST + 2**64 // _RATE}}}
# Enough marks to reach the window's end, and how many are counted.
_SAMPLED = 2 * RESULT_WINDOW // _RATE
_COUNTED = 8
# Marks by which the place may be missed: three standard deviations, which is the square root of a count of marks.
_SPREAD = 3


@dataclass(frozen=True)
class Start:
    """A place in front of a page: the first key behind it, None for the very first, how many records come before it.

    `total` is the number of all records.
    """

    key: str | None
    before: int
    total: int


async def start(search: Search, selection: Selection, offset: int) -> Start:
    """Return a place not far in front of the record number `offset`, counted from 0."""
    sample = page_body(selection.restricted(_SAMPLE), _SAMPLED)
    keys = hits(await search(sample | {"_source": False, "stored_fields": "_none_", "track_total_hits": False}))
    marks = marks_round([hit["sort"][0] for hit in keys], offset)
    return nearest(marks, await search(_counts(selection, marks)), offset)


def marks_round(keys: list[str], offset: int) -> list[str]:
    """Return some of the sampled keys, in order: those between which the offset is likely to lie."""
    expected = offset // _RATE
    reach = _SPREAD * isqrt(expected) + 1
    near = keys[max(0, expected - reach) : expected + reach]
    return near[:: max(1, len(near) // _COUNTED)]


def nearest(marks: list[str], counted: bytes, offset: int) -> Start:
    """Return the last mark that has at most `offset` records in front of it, by the answer that counted them."""
    answer = orjson.loads(counted)
    found, before = Start(None, 0, answer["hits"]["total"]["value"]), 0
    for at, mark in enumerate(marks):
        before += answer["aggregations"]["ranks"]["buckets"][str(at)]["doc_count"]
        if before > offset:
            return found
        found = Start(mark, before, found.total)
    return found


def _counts(selection: Selection, marks: list[str]) -> Body:
    """Return the body that counts what lies before the first mark and between each two, beside all records."""
    field = selection.sort_field
    bounds = [{"lt": marks[0]}, *({"gte": low, "lt": high} for low, high in pairwise(marks))] if marks else []
    filters = {str(at): {"range": {field: bound}} for at, bound in enumerate(bounds)}
    aggregations = {"aggs": {"ranks": {"filters": {"filters": filters}}}} if filters else {}
    return {"size": 0, "query": selection.query(), "track_total_hits": True, **aggregations}


def behind(selection: Selection, place: Start, offset: int, size: int, *, brief: bool) -> Body:
    """Return the body for the page that begins at `offset`, asked for from a place in front of it."""
    if place.key is not None:
        selection = selection.restricted({"range": {selection.sort_field: {"gte": place.key}}})
    return page_body(selection, size, brief=brief) | {"from": offset - place.before, "track_total_hits": False}
