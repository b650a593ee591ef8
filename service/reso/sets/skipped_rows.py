"""The position after the first rows of an entity set, by one search of each resource.

Elasticsearch sorts all records for each search, so the positions are read at once. Of their sort values only those are
decoded that are compared, or name a record of the second resource.
"""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

import msgspec

from mappings.stored_document import identifier_from_feed_key
from service.background import in_turns
from service.request_context import RequestContext
from service.reso.filter.clauses import MATCH_NONE
from service.reso.ordering import Position, SortOrder
from service.search.query import Selection
from service.search.responses import hits_decoder

# Identifiers that are looked up at once.
_NAMED_AT_ONCE = 2_500
# Return those of some identifiers that the first resource has, too.
KnownBefore = Callable[[Selection, Sequence[str]], Awaitable[Collection[str]]]


class _Hit(msgspec.Struct, gc=False):
    sort: msgspec.Raw


_decode_hits = hits_decoder(_Hit)
_decode_sort = msgspec.json.Decoder(list[str | int | float | None]).decode


@dataclass
class SortedRecords:
    """The first records of a selection, by their sort values: those read up to a position; `is_all` if all."""

    call: RequestContext
    selection: Selection
    ordering: SortOrder
    found: list[msgspec.Raw]
    read_to: Position = ()
    is_all: bool = False

    @classmethod
    async def first(
        cls, call: RequestContext, selection: Selection, ordering: SortOrder, size: int, after: Position = ()
    ) -> "SortedRecords":
        """Return the first `size` records after a position, or fewer if there are fewer."""
        records = cls(call, selection, ordering, [], after, is_all=MATCH_NONE in selection.clauses)
        await records.read_on(size)
        return records

    async def read_on(self, size: int) -> None:
        """Add the next `size` records."""
        if self.is_all or not size:
            return
        body = self.ordering.search_body(self.selection, self.read_to, size) | {"stored_fields": "_none_"}
        hits = _decode_hits(await self.call.search(self.selection.resource, body))
        self.found += [hit.sort for hit in hits]
        self.read_to = self.position(-1) if hits else self.read_to
        self.is_all = len(hits) < size

    def position(self, at: int) -> Position:
        sort = _decode_sort(self.found[at])
        return self.ordering.position(self.selection.resource, sort, self._identifier(sort))

    async def identifiers(self, start: int, end: int) -> list[str]:
        return [self._identifier(_decode_sort(sort)) async for sort in in_turns(self.found[start:end])]

    def _identifier(self, sort: Sequence[object]) -> str:
        """Return the identifier, by which every order ends."""
        is_feed_key = self.ordering.is_by_key and self.selection.sort_field == "feed_key"
        return identifier_from_feed_key(str(sort[-1])) if is_feed_key else str(sort[-1])


async def position_after(
    number: int, first: SortedRecords, second: SortedRecords, known: KnownBefore
) -> Position | None:
    """Return the position after the first `number` rows of two resources, None if there are fewer.

    Both have as many records, if there are. Records of the second that the first has are left out.
    """
    checked = 0
    while (taken := _taken(number, first, second)) > checked:
        end = min(taken, checked + _NAMED_AT_ONCE)
        names = await second.identifiers(checked, end)
        left_out = await known(second.selection, names)
        second.found[checked:end] = [
            sort for sort, name in zip(second.found[checked:end], names, strict=True) if name not in left_out
        ]
        checked = end - len(left_out)
        await second.read_on(len(left_out))
    return last_of(number, first, second)


def last_of(number: int, first: SortedRecords, second: SortedRecords) -> Position | None:
    """Return the position of the last of the first `number` records of two resources, None if there are fewer."""
    taken = _taken(number, first, second)
    of_first = number - taken
    if of_first > len(first.found):
        return None
    ends = [*([first.position(of_first - 1)] if of_first else []), *([second.position(taken - 1)] if taken else [])]
    return ends[first.ordering.sorted_indices(ends)[-1]]


def _taken(number: int, first: SortedRecords, second: SortedRecords) -> int:
    """Return how many of the first `number` rows are of the second resource."""

    def order(at: int) -> list[int]:
        return first.ordering.sorted_indices([second.position(at), first.position(number - at - 1)])

    most = min(number, len(second.found))
    least = min(most, max(0, number - len(first.found)))
    return least + bisect_left(range(least, most), [1, 0], key=order)
