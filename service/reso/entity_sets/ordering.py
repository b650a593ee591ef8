"""The order of an entity set's records, and the search that continues after one of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from service.reso.entity_sets.sort_fields import ID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mappings.resource import Resource
    from service.reso.entity_sets.sort_fields import SortField, SortKind, SortValue
    from service.reso.paging.skip_token import Position
    from service.search.query import Body, Selection


class SortKey(NamedTuple):
    """A property to sort by: its field in each resource. An empty mapping is the identifier."""

    kind: SortKind
    is_descending: bool
    by_resource: Mapping[Resource, SortField]

    def field(self, resource: Resource) -> SortField:
        """Return the field that sorts the records of a resource."""
        return self.by_resource.get(resource, ID)


@dataclass(frozen=True)
class SortOrder:
    """The sort keys, most significant first; the identifier is the last, so that positions are unique."""

    keys: tuple[SortKey, ...] = field(hash=False)

    @property
    def position_kinds(self) -> tuple[SortKind, ...]:
        """The types of the sort values of a position."""
        return tuple(key.kind for key in self.keys)

    @property
    def is_by_key(self) -> bool:
        """Whether it is the order of the feeds."""
        return self.keys == BY_KEY.keys

    def sorted_indices(self, positions: Sequence[Position]) -> list[int]:
        """Return the indices of positions in this order; strings compare by code point, as in Elasticsearch."""
        indices = list(range(len(positions)))
        for at, key in reversed(list(enumerate(self.keys))):
            # None, a keyword that a record lacks, is before every text.
            values = [(position[at] is not None, position[at]) for position in positions]
            indices.sort(key=values.__getitem__, reverse=key.is_descending)
        return indices

    def search_body(self, selection: Selection, after: Position, size: int) -> Body:
        """Return the body for the next `size` records after a position; empty: from the first."""
        body: Body = {"size": size, "track_total_hits": False}
        if self.is_by_key:
            # As in the feeds: within one company a single range of the index sort key.
            identifier = str(after[0]) if after else ""
            body |= {"query": selection.query(identifier), "sort": [selection.sort_field]}
            return body | ({"search_after": [selection.sort_value(identifier)]} if after else {})
        fields = [key.field(selection.resource) for key in self.keys]
        body["sort"] = [
            field.clause(is_descending=key.is_descending) for field, key in zip(fields, self.keys, strict=True)
        ]
        if not after:
            return body | {"query": selection.query()}
        bound = fields[0].bound(after[0], is_descending=self.keys[0].is_descending)
        within = selection if bound is None else selection.filtered(bound)
        return body | {"query": within.query(), "search_after": list(after)}

    def position(self, sort_values: Sequence[SortValue], identifier: str) -> Position:
        """Return the position of a record, from the sort values of a hit."""
        return (identifier,) if self.is_by_key else tuple(sort_values)


BY_KEY = SortOrder((SortKey(ID.kind, is_descending=False, by_resource={}),))
