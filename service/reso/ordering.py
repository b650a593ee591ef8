"""In which order the records of an entity set come, and how a search goes on behind one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mappings.dictionary import MODIFIED
from service.errors import InvalidRequest
from service.reso.options import ORDER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.query import Body, Clause, Selection
    from service.reso.entities import EntitySet
    from service.reso.options import Order
    from service.reso.token import Position

_ID, _CLOCK = "id", "clock"
_TYPES: dict[str, type] = {_ID: str, _CLOCK: int}


class Placed(Protocol):
    """What has a place in every order."""

    @property
    def id(self) -> str:
        """The identifier."""

    @property
    def clock(self) -> int:
        """The time of the last change, in milliseconds since 1970."""


class _By(NamedTuple):
    field: str
    is_descending: bool


@dataclass(frozen=True)
class Ordering:
    """Search fields in turn; the identifier is the last, so that no two records have the same place."""

    by: tuple[_By, ...]

    @property
    def kinds(self) -> tuple[type, ...]:
        """The types of the values of a position."""
        return tuple(_TYPES[each.field] for each in self.by)

    def position(self, placed: Placed) -> Position:
        """Return the values by which something has its place."""
        return tuple(getattr(placed, each.field) for each in self.by)

    def merged(self, positions: Sequence[Position]) -> list[int]:
        """Return the indices of positions in this order; texts go by code points, as in Elasticsearch."""
        indices = list(range(len(positions)))
        for at, each in reversed(list(enumerate(self.by))):
            indices.sort(key=lambda index, at=at: positions[index][at], reverse=each.is_descending)  # type: ignore[misc]
        return indices

    def body(self, selection: Selection, after: Position, size: int) -> Body:
        """Return the body for so many records behind a position, from the beginning if that is empty."""
        body: Body = {"size": size, "track_total_hits": False}
        if self.by == (_By(_ID, is_descending=False),):
            # The way of the feeds: within a company one range of the key that sorts the index.
            identifier = str(after[0]) if after else ""
            body |= {"query": selection.query(identifier), "sort": [selection.sort_field]}
            return body | ({"search_after": [selection.position(identifier)]} if after else {})
        body["sort"] = [{each.field: "desc" if each.is_descending else "asc"} for each in self.by]
        if not after:
            return body | {"query": selection.query()}
        first = self.by[0]
        bound: Clause = {"range": {first.field: {"lte" if first.is_descending else "gte": after[0]}}}
        return body | {"query": selection.restricted(bound).query(), "search_after": list(after)}


BY_KEY = Ordering((_By(_ID, is_descending=False),))


def ordering(entity_set: EntitySet, orders: Sequence[Order]) -> Ordering:
    """Return the order that was asked for; raise InvalidRequest for a property that nothing is ordered by."""
    fields = {entity_set.key: _ID, MODIFIED: _CLOCK}
    by: list[_By] = []
    for order in orders:
        if order.name not in entity_set.properties:
            raise InvalidRequest.of(ORDER, f"{entity_set.name} has no property {order.name!r}.")
        if order.name not in fields:
            known = ", ".join(entity_set.ordered)
            raise InvalidRequest.of(ORDER, f"{order.name} cannot be ordered by; these can: {known}.")
        by.append(_By(fields[order.name], order.is_descending))
    names = [each.field for each in by]
    # What stands behind the identifier changes nothing.
    return Ordering((*by[: names.index(_ID) + 1],)) if _ID in names else Ordering((*by, *BY_KEY.by))
