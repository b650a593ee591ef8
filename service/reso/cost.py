"""What a request costs: bounded, and counted against the rate limit of its key before Elasticsearch is asked.

Bounds of each element, such as comparisons and values, do not bound their sum.
"""

from collections.abc import Iterable
from typing import NamedTuple

from mappings.resource import Resource
from service.errors import InvalidRequest
from service.request_context import RequestContext
from service.reso.protocol import COUNT, EXPAND, FILTER, FORMAT, SKIP, SKIP_TOKEN
from service.search.cost import search_milliseconds
from service.search.query import Clause

# Milliseconds of processor time, here and in Elasticsearch, that count as one request. A page takes as much.
_OF_A_REQUEST = 10.0
MAX_FILTER_COST = 10
_EXPANDED_ROW, _COMPARED_PARENT, _LOOKED_UP_KEY = 0.03, 0.1, 0.004
# Of a row that is skipped, and for each property that it is ordered by.
_SKIPPED_ROW, _SORT_VALUE = 0.03, 0.0015


class Searched(NamedTuple):
    """What a request searches: clauses by resource, and the parents whose children are compared one by one.

    `ordered_by` is the number of the properties that rows are ordered by.
    """

    clauses: Iterable[tuple[Resource, Iterable[Clause]]]
    compared_parents: int = 0
    ordered_by: int = 1

    @property
    def milliseconds(self) -> float:
        searches = sum(search_milliseconds(resource, clauses) for resource, clauses in self.clauses)
        return searches + _COMPARED_PARENT * self.compared_parents


async def charge_page(call: RequestContext, searched: Searched, rows: int) -> None:
    """Count a page of at most `rows` rows; raise InvalidRequest or RateLimited."""
    sent = call.parameters
    is_counted, skipped = sent[COUNT] and sent[SKIP_TOKEN] is None, sent[SKIP] or 0
    of_filter = searched.milliseconds * (1 + bool(is_counted) + bool(skipped))
    _refuse_costly(of_filter)
    expanded = (len(sent.get(EXPAND) or ()) + sent[FORMAT].is_annotated) * rows
    of_skipped = (_SKIPPED_ROW + _SORT_VALUE * (searched.ordered_by - 1)) * skipped
    await _charge(call, of_filter + of_skipped + _EXPANDED_ROW * expanded)


async def charge_looked_up(call: RequestContext, keys: int) -> None:
    """Count a request again whose number takes a look-up of so many keys; raise RateLimited before that."""
    await _charge(call, _LOOKED_UP_KEY * keys)


async def charge_count(call: RequestContext, searched: Searched) -> None:
    """Count a request for a number alone; raise InvalidRequest or RateLimited."""
    _refuse_costly(searched.milliseconds)
    await _charge(call, searched.milliseconds)


def _refuse_costly(milliseconds: float) -> None:
    if (cost := int(milliseconds / _OF_A_REQUEST)) > MAX_FILTER_COST:
        raise InvalidRequest.of(
            FILTER,
            f"costs as much as {cost} requests; at most {MAX_FILTER_COST} are accepted. Send several requests with "
            "parts of it: patterns, comparisons by gt, ge, lt, le, and comparisons of keys cost most, and all again "
            "with $count and $skip.",
        )


async def _charge(call: RequestContext, milliseconds: float) -> None:
    await call.charge(max(1, int(milliseconds / _OF_A_REQUEST)))
