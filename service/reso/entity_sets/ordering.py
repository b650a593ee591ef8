"""The order of an entity set's records, and the search that continues after one of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mappings.resource import Resource
from service.reso.entity_sets.sort_fields import ID, SortField, SortKind, SortValue
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

    keys: tuple[SortKey, ...]

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
        fields = [(key, key.field(selection.resource)) for key in self.keys]
        # A field that the resource lacks, null in all of its records, does not order them.
        body["sort"] = [field.clause(is_descending=key.is_descending) for key, field in fields if not field.is_absent]
        if not after:
            return body | {"query": selection.query()}
        bound = fields[0][1].bound(after[0], is_descending=self.keys[0].is_descending)
        within = selection if bound is None else selection.filtered(bound)
        return body | {"query": within.query(), "search_after": _values_after(fields, after)}

    def position(self, resource: Resource, sort_values: Sequence[SortValue], identifier: str) -> Position:
        """Return the position of a record, from the sort values of a hit."""
        if self.is_by_key:
            return (identifier,)
        found, fields = iter(sort_values), [key.field(resource) for key in self.keys]
        return tuple(field.kind.null if field.is_absent else next(found) for field in fields)


def _values_after(fields: Sequence[tuple[SortKey, SortField]], after: Position) -> list[SortValue]:
    """Return the sort values to continue after, of the fields that a resource has.

    A position may have a value of a field that the resource lacks: of the records that are equal up to there, all or
    none are after it, as null is before every value.
    """
    values: list[SortValue] = []
    is_decided = is_after = False
    for (key, field), value in zip(fields, after, strict=True):
        if field.is_absent:
            if not is_decided and value != field.kind.null:
                is_decided, is_after = True, key.is_descending
        elif is_decided:
            values.append(field.kind.limit(is_upper=is_after is key.is_descending))
        else:
            values.append(value)
    return values


BY_KEY = SortOrder((SortKey(ID.kind, is_descending=False, by_resource={}),))
