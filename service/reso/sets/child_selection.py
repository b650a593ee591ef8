"""The children that a request selects, parent by parent, in the order of their keys.

Children are counted without loading their parents, from the indexed numbers of elements, or by their tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from math import ceil
from typing import Any, NamedTuple

from mappings.listing import TOKENS
from mappings.open_houses import Token
from mappings.resource import Resource
from service.background import batches_in_turns
from service.request_context import RequestContext
from service.reso.cost import Searched
from service.reso.filter.clauses import MATCH_NONE, all_of, any_of, build_clause
from service.reso.ordering import Position, SortKind, SortOrder, skip_positions
from service.reso.sets.child_condition import ChildCondition, ChildPart
from service.reso.sets.child_sets import Child, ChildKey, ChildSet
from service.reso.sets.child_tokens import count_tokens
from service.reso.sets.entity_query import matcher_for
from service.reso.sets.entity_rows import Counted, EntityRecords, EntityRow, count_distinct
from service.reso.sets.entity_set import EntityHeader
from service.reso.sets.token_set import EVERY, TokenSet
from service.search.query import ONCE_WITHHELD, Body, Clause, Selection, match_none, terms
from service.search.responses import sum_of

_NO_HEADER = EntityHeader("", 0)
# Parents of one search: enough for a page, and few enough to share the cluster with other requests.
_MAX_PARENTS = 200
# Parents whose children are counted, or found by their tokens, by one search.
_COUNTED_PARENTS = 1_000
# Whose children are compared at once: with 500 literals, about 1 ms.
_PARENTS_OF_A_TURN = 4
# Children of a parent, as long as none has been read; if tokens are compared, one.
_USUAL_CHILDREN = 4


class ChildRow(NamedTuple):
    """A child and its position: that of the parent, and the suffix of its own key."""

    position: Position
    resource: Resource
    child: Child


@dataclass(frozen=True)
class ChildSelection:
    """The parents that a request selects, in order, and the condition on their children."""

    call: RequestContext
    child_set: ChildSet
    condition: ChildCondition
    ordering: SortOrder

    @cached_property
    def parents(self) -> EntityRecords:
        return self._parents(self.condition.parts)

    def _parents(self, parts: Sequence[ChildPart], *clauses: Clause) -> EntityRecords:
        selections = tuple(self._selection(resource, parts, clauses) for resource in self.child_set.resources)
        return EntityRecords(self.call, selections, self.ordering)

    def _selection(self, resource: Resource, parts: Sequence[ChildPart], clauses: Iterable[Clause]) -> Selection:
        """Return the parents that have children of some parts; none if the key may not see them."""
        of_set, condition = self.child_set, self.condition
        self.call.require(resource, (of_set.counted_by, *condition.token_fields))
        chosen: list[Clause] = [{"exists": {"field": of_set.counted_by}}, *clauses]
        if of_set.group(resource) in self.call.visibility.withheld:
            chosen.append(MATCH_NONE)
        if of_set.hides_withheld and self.call.visibility.display:
            chosen.append(match_none(ONCE_WITHHELD))
        if condition.expression is not None:
            chosen.append(any_of(self._part_clause(resource, part) for part in parts))
        if condition.group is not None:
            chosen.append(condition.group.clause)
        return self.call.selection(resource, tuple(chosen))

    def _part_clause(self, resource: Resource, part: ChildPart) -> Clause:
        find_matcher = partial(matcher_for, self.call, self.child_set, resource)
        clause = build_clause(part.of_parents, find_matcher)
        return clause if part.tokens == EVERY else all_of((clause, part.tokens.clause))

    def within(self, tokens: TokenSet) -> ChildSelection:
        """Return the selection of the children with certain tokens."""
        return replace(self, condition=replace(self.condition, group=tokens))

    @property
    def position_kinds(self) -> tuple[SortKind, ...]:
        return (*self.ordering.position_kinds, SortKind.IDENTIFIER)

    @property
    def searched(self) -> Searched:
        """What Elasticsearch is asked."""
        compared = {name.lower() for name in self.condition.divided}  # of whose spellings one is found
        return self.parents.searched._replace(compared_parents=len(compared))

    async def rows(self, after: Position, size: int) -> list[ChildRow]:
        """Return the next children after a position."""
        return await self._next(after, size, self._loaded, _MAX_PARENTS)

    async def located(self, after: Position, size: int) -> list[ChildRow]:
        """Return the next children after a position without their values, by their tokens."""
        return await self._next(after, size, self._located, _COUNTED_PARENTS)

    async def _next(self, after: Position, size: int, read: _ReadParents, at_once: int) -> list[ChildRow]:
        usual = 1 if self.condition.has_tokens else _USUAL_CHILDREN
        wanted = _parents_for(size, (), usual, at_once)
        rest, (parents, children) = await asyncio.gather(self._siblings_after(after), read(after[:-1], wanted))
        found = [*rest, *children]
        while len(found) < size and len(parents) == wanted:
            wanted = _parents_for(size - len(found), found[-at_once:], usual, at_once)
            parents, children = await read(parents[-1].position, wanted)
            found += children
        return found[:size]

    async def _loaded(self, after: Position, size: int) -> tuple[list[EntityRow], list[ChildRow]]:
        parents = await self.parents.page(after, size)
        return parents, await self.children_of(parents)

    async def _located(self, after: Position, size: int) -> tuple[list[EntityRow], list[ChildRow]]:
        """Return parents with their children; those of which more than tokens are compared are loaded."""
        parents = await self.parents.positions(after, size, TOKENS)
        loaded = await self._children_by_parent([row.id for row in parents if not self.condition.is_of_tokens(row.id)])
        return parents, [row for parent in parents for row in loaded.get(parent.id) or self._by_tokens(parent)]

    def _by_tokens(self, parent: EntityRow) -> list[ChildRow]:
        if not self.condition.is_of_tokens(parent.id):
            return []
        tokens = [Token.read(text) for text in parent.doc_values[TOKENS]]
        keys = [(ChildKey(parent.id, token.suffix), token) for token in tokens]
        return self._matching(parent, [Child(key, {}, 0, None, _NO_HEADER, token) for key, token in keys])

    async def position_after(self, number: int) -> Position | None:
        """Return the position after the first `number` rows, None if there are fewer.

        They are counted without being read, but for those of divided parents and of the parent that has the last.
        """
        if self.condition.has_tokens:
            return await skip_positions(self._positions, number, _COUNTED_PARENTS)
        left, after = number, Position()
        counted_by = self.child_set.counted_by
        while True:
            parents = await self.parents.positions(after, _COUNTED_PARENTS, counted_by)
            named = [row.id for row in parents if row.id in self.condition.divided]
            divided = await self._children_by_parent(named)
            for parent in parents:
                if parent.id in self.condition.divided:
                    children = divided.get(parent.id, [])
                elif (number_of := int(parent.doc_values[counted_by][0])) < left:
                    left -= number_of
                    continue
                else:
                    children = (await self._children_by_parent([parent.id])).get(parent.id, [])
                if len(children) >= left:
                    return children[left - 1].position
                left -= len(children)
            if len(parents) < _COUNTED_PARENTS:
                return None
            after = parents[-1].position

    async def _positions(self, after: Position, size: int) -> list[Position]:
        return [row.position for row in await self.located(after, size)]

    async def _children_by_parent(self, keys: Sequence[str]) -> dict[str, list[ChildRow]]:
        if not keys:
            return {}
        children = await self.children_of(await self.named(keys).rows((), len(keys)))
        return {key: [*group] for key, group in groupby(children, lambda row: row.child.key.parent)}

    async def children_of(self, parents: Sequence[EntityRow]) -> list[ChildRow]:
        """Return the matching children of parents, in the order of their keys."""
        found: list[ChildRow] = []
        async for few in batches_in_turns(parents, _PARENTS_OF_A_TURN):
            # A list that the key may not see is empty.
            for parent, record in zip(few, self.parents.shown(few), strict=True):
                found += self._matching(parent, self.child_set.children(parent.id, record, parent.source))  # type: ignore[arg-type]
        return found

    def _matching(self, parent: EntityRow, children: Iterable[Child]) -> list[ChildRow]:
        is_descending = self.ordering.keys[-1].is_descending
        matches = self.condition.predicate(parent.id)
        return [
            ChildRow((*parent.position, child.key.suffix), parent.resource, child)
            for child in sorted(children, key=lambda child: child.key, reverse=is_descending)
            if matches(child)
        ]

    def named(self, keys: Sequence[str]) -> EntityRecords:
        """Return the parents with these keys."""
        return self._parents(self.condition.parts, terms("_id", keys))

    async def _siblings_after(self, after: Position) -> list[ChildRow]:
        """Return the children after a position that have the same parent, if that is still where it was."""
        if not after:
            return []
        rows = await self.children_of(await self.named([str(after[-2])]).rows((), 1))
        is_descending = self.ordering.keys[-1].is_descending
        return [
            row
            for row in rows
            if row.position[:-1] == after[:-1]
            and row.child.key.suffix != after[-1]
            and (row.child.key.suffix < str(after[-1])) is is_descending
        ]

    async def count(self) -> int:
        """Return the number of children; those of parents whose children are divided by a key are read."""
        divided = sorted(self.condition.divided)
        parts = [self._count_part(part, divided) for part in self.condition.parts]
        return sum(await asyncio.gather(self._count_divided(divided), *parts))

    async def _count_divided(self, divided: Sequence[str]) -> int:
        if not divided:
            return 0
        return len(await self.children_of(await self.named(divided).rows((), len(divided))))

    async def _count_part(self, part: ChildPart, divided: Sequence[str]) -> int:
        others = [match_none(terms("_id", divided))] if divided else []
        first, *later = self._parents((part,), *others).selections
        if part.tokens == EVERY:
            counted, of_first = Counted(self.child_set.counted_by, _first_value), self._sum(first)
        else:
            counted = Counted(TOKENS, partial(_number_within, part.tokens))
            of_first = count_tokens(self.call, first, part.tokens)
        of_later = [count_distinct(self.call, one, first.resource, counted) for one in later]
        return sum(await asyncio.gather(of_first, *of_later))

    async def _sum(self, selection: Selection) -> int:
        aggregation = {"sum": {"field": self.child_set.counted_by}}
        body: Body = {"size": 0, "query": selection.query(), "aggs": {"children": aggregation}}
        return sum_of("children", await self.call.search(selection.resource, body))


_ReadParents = Callable[[Position, int], Awaitable[tuple[list[EntityRow], list[ChildRow]]]]


def _first_value(values: Sequence[Any]) -> int:
    return int(values[0])


def _number_within(tokens: TokenSet, texts: Sequence[str]) -> int:
    return sum(map(tokens.has, texts))


def _parents_for(size: int, children: Sequence[ChildRow], usual: float, most: int) -> int:
    """Return how many parents have so many children, by those that were read."""
    each = len(children) / len({row.child.key.parent for row in children}) if children else usual
    return max(1, min(most, ceil(size / each)))
