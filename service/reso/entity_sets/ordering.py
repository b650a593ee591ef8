"""The order of an entity set's records, and the search that continues after one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mappings.data_dictionary.model import MODIFICATION_TIMESTAMP
from service.errors import InvalidRequest
from service.reso.protocol.option_names import ORDER_BY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.reso.entity_sets.declarations import EntitySet
    from service.reso.paging.skip_token import Position
    from service.reso.protocol.option_names import OrderBy
    from service.search.query import Body, Clause, Selection

_ID, _CLOCK = "id", "clock"
_TYPES: dict[str, type] = {_ID: str, _CLOCK: int}


class Sortable(Protocol):
    """Anything with the sort values of a record."""

    @property
    def id(self) -> str:
        """The identifier."""

    @property
    def clock(self) -> int:
        """The time of the last change, in milliseconds since 1970."""


class _SortKey(NamedTuple):
    field: str
    is_descending: bool


@dataclass(frozen=True)
class SortOrder:
    """The sort keys, most significant first; the identifier is the last, so that positions are unique."""

    keys: tuple[_SortKey, ...]

    @property
    def position_types(self) -> tuple[type, ...]:
        """The types of the sort values of a position."""
        return tuple(_TYPES[key.field] for key in self.keys)

    def position(self, record: Sortable) -> Position:
        """Return the sort values of a record."""
        return tuple(getattr(record, key.field) for key in self.keys)

    def sorted_indices(self, positions: Sequence[Position]) -> list[int]:
        """Return the indices of positions in this order; strings compare by code point, as in Elasticsearch."""
        indices = list(range(len(positions)))
        for at, key in reversed(list(enumerate(self.keys))):
            indices.sort(key=lambda index, at=at: positions[index][at], reverse=key.is_descending)  # type: ignore[misc]
        return indices

    def search_body(self, selection: Selection, after: Position, size: int) -> Body:
        """Return the body for the next `size` records after a position; empty: from the first."""
        body: Body = {"size": size, "track_total_hits": False}
        if self.keys == (_SortKey(_ID, is_descending=False),):
            # As in the feeds: within one company a single range of the index sort key.
            identifier = str(after[0]) if after else ""
            body |= {"query": selection.query(identifier), "sort": [selection.sort_field]}
            return body | ({"search_after": [selection.sort_value(identifier)]} if after else {})
        body["sort"] = [{key.field: "desc" if key.is_descending else "asc"} for key in self.keys]
        if not after:
            return body | {"query": selection.query()}
        first = self.keys[0]
        bound: Clause = {"range": {first.field: {"lte" if first.is_descending else "gte": after[0]}}}
        return body | {"query": selection.filtered(bound).query(), "search_after": list(after)}


BY_KEY = SortOrder((_SortKey(_ID, is_descending=False),))


def build_sort_order(entity_set: EntitySet, orders: Sequence[OrderBy]) -> SortOrder:
    """Return the requested order; raise InvalidRequest for a property that is not sortable."""
    fields = {entity_set.key: _ID, MODIFICATION_TIMESTAMP: _CLOCK}
    keys: list[_SortKey] = []
    for order in orders:
        if order.name not in entity_set.properties:
            raise InvalidRequest.of(ORDER_BY, f"{entity_set.name} has no property {order.name!r}.")
        if order.name not in fields:
            known = ", ".join(entity_set.sortable)
            raise InvalidRequest.of(ORDER_BY, f"{order.name} cannot be used in $orderby; these can: {known}.")
        keys.append(_SortKey(fields[order.name], order.is_descending))
    names = [key.field for key in keys]
    # Keys after the identifier, which is unique, change nothing.
    return SortOrder((*keys[: names.index(_ID) + 1],)) if _ID in names else SortOrder((*keys, *BY_KEY.keys))
