"""The rows of a child set: the children of its parents, parent by parent."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import NamedTuple

from mappings.resource import Resource
from service.reso.child_sets.child_condition import ChildCondition
from service.reso.child_sets.child_set import Child, ChildSet
from service.reso.entity_sets.entity_rows import EntityRecords, EntityRow
from service.reso.paging.skip_token import Position
from service.search.query import terms

# Parents of one search: enough for a page, and few enough to share the cluster with other requests.
_MAX_PARENTS = 200
# Children of a parent, as long as none has been read.
_USUAL_CHILDREN = 4


class ChildRow(NamedTuple):
    """A child and its position: that of the parent, and the suffix of its own key."""

    position: Position
    resource: Resource
    child: Child


@dataclass(frozen=True)
class ChildSelection:
    """The parents that a request selects, and the condition on their children."""

    child_set: ChildSet
    parents: EntityRecords
    condition: ChildCondition

    async def rows(self, after: Position, size: int) -> list[ChildRow]:
        """Return the next children after a position."""
        rest, parents = await asyncio.gather(
            self._siblings_after(after), self.parents.rows(after[:-1], _parents_for(size, ()))
        )
        found, wanted = list(rest), _parents_for(size, ())
        while True:
            found += self.children_of(parents)
            if len(found) >= size or len(parents) < wanted:
                return found[:size]
            wanted = _parents_for(size - len(found), found[-size:])
            parents = await self.parents.rows(parents[-1].position, wanted)

    def children_of(self, parents: Sequence[EntityRow]) -> list[ChildRow]:
        """Return the matching children of parents, in the order of their keys."""
        is_descending = self.parents.ordering.keys[-1].is_descending
        found: list[ChildRow] = []
        # A list that the key may not see is empty.
        for parent, record in zip(parents, self.parents.shown(parents), strict=True):
            children = self.child_set.children(parent.id, record, parent.source)  # type: ignore[arg-type]
            found += [
                ChildRow((*parent.position, child.key.suffix), parent.resource, child)
                for child in sorted(children, key=lambda child: child.key, reverse=is_descending)
                if self.condition.holds(child)
            ]
        return found

    def named(self, keys: Sequence[str]) -> EntityRecords:
        """Return the parents with these keys."""
        clause = terms("_id", keys)
        return replace(self.parents, selections=tuple(each.filtered(clause) for each in self.parents.selections))

    async def _siblings_after(self, after: Position) -> list[ChildRow]:
        """Return the children after a position that have the same parent, if that is still where it was."""
        if not after:
            return []
        rows = self.children_of(await self.named([str(after[-2])]).rows((), 1))
        is_descending = self.parents.ordering.keys[-1].is_descending
        return [
            row
            for row in rows
            if row.position[:-1] == after[:-1]
            and row.child.key.suffix != after[-1]
            and (row.child.key.suffix < str(after[-1])) is is_descending
        ]


def _parents_for(size: int, children: Sequence[ChildRow]) -> int:
    """Return how many parents have so many children, by those that were read."""
    each = len(children) / len({row.child.key.parent for row in children}) if children else _USUAL_CHILDREN
    return max(1, min(_MAX_PARENTS, ceil(size / each)))
