"""The rows of an entity set: records of one or two of our resources in one order, each key once.

A key that two resources have is answered of the first: the record of the second is left out, whatever is asked for.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from service.feed import hits
from service.query import Selection, terms
from service.reso.distinct import count_distinct
from service.reso.ordering import BY_KEY
from service.reso.places import count, read_places

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from mappings.resource import Resource
    from service.answer import Encoded
    from service.feed.hits import Head
    from service.operation import Call
    from service.reso.ordering import Ordering
    from service.reso.token import Position

    _Read = Callable[[Selection, Position, int], Awaitable[list["Row"]]]


class Place(NamedTuple):
    """Where a record is in every order."""

    id: str
    clock: int


class Row(NamedTuple):
    """A record, or where one is."""

    position: Position
    resource: Resource
    place: Place | Head
    record: Encoded | None = None


@dataclass(frozen=True)
class Records:
    """What a request asks for: of each resource, the first counting most, a selection; and in which order."""

    call: Call
    selections: tuple[Selection, ...]
    ordering: Ordering

    async def rows(self, after: Position, size: int) -> list[Row]:
        """Return the first rows behind a position."""
        return await self._merged(self._read, after, size)

    async def skipped(self, number: int) -> Position | None:
        """Return the position behind so many rows, None where there are not as many."""
        rows = await self._merged(self._read_brief, (), number)
        return rows[-1].position if len(rows) == number else None

    async def count(self) -> int:
        """Return how many rows there are in all."""
        first, *later = self.selections
        of_first = count(self.call, first.resource, first.query())
        return sum(await asyncio.gather(of_first, *(count_distinct(self.call, each, first.resource) for each in later)))

    async def _merged(self, read: _Read, after: Position, size: int) -> list[Row]:
        parts = await asyncio.gather(*(self._once(read, each, after, size) for each in self.selections))
        rows = [row for part in parts for row in part]
        return [rows[index] for index in self.ordering.merged([row.position for row in rows])[:size]]

    async def _once(self, read: _Read, selection: Selection, after: Position, size: int) -> list[Row]:
        """Return the first rows of a resource without those whose key an earlier one has."""
        found: list[Row] = []
        while (missing := size - len(found)) > 0:
            page = await read(selection, after, missing)
            known = await self._known_before(selection, [row.place.id for row in page])
            found += [row for row in page if row.place.id not in known]
            if len(page) < missing:
                break
            after = page[-1].position
        return found

    async def _known_before(self, selection: Selection, identifiers: Sequence[str]) -> Collection[str]:
        """Return those of some identifiers that the first resource has, whether or not its record is asked for."""
        first = self.selections[0]
        if selection is first or not identifiers:
            return frozenset()
        everything = Selection(first.resource, self.call.scope, (terms("_id", identifiers),))
        body = BY_KEY.body(everything, (), len(identifiers))
        return {place.id for place in await read_places(self.call, first.resource, body, Place)}

    async def _read(self, selection: Selection, after: Position, size: int) -> list[Row]:
        answer = await self.call.search(selection.resource, self.ordering.body(selection, after, size))
        position = self.ordering.position
        return [Row(position(hit.head), selection.resource, *hit) for hit in hits.read(answer)]

    async def _read_brief(self, selection: Selection, after: Position, size: int) -> list[Row]:
        body = self.ordering.body(selection, after, size)
        places = await read_places(self.call, selection.resource, body, Place)
        return [Row(self.ordering.position(place), selection.resource, place) for place in places]
