"""The children that a request selects, parent by parent, and their encoding under Data Dictionary names.

A comparison with a child's key holds for all children of a parent or for none, except for the parent that the key
names. So the parents are selected by their own keys, which the index answers, and only the children of those named in
the filter are compared. Children are counted without loading their parents, from the indexed numbers of elements.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import groupby
from math import ceil
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import msgspec

from mappings.data_dictionary import MODIFICATION_TIMESTAMP
from mappings.resource import Resource
from service.background import batches_in_turns
from service.http.responses import JsonBytes
from service.request_context import RequestContext
from service.reso.cost import Searched, charge_count
from service.reso.filter.clauses import MATCH_NONE, build_clause
from service.reso.filter.expression import (
    And,
    ComparisonOperator,
    FieldComparison,
    FieldCondition,
    FilterExpression,
    FilterLiteral,
    InList,
    Leaf,
    LiteralType,
    Negation,
    Or,
    Predicate,
    compared_literals,
    compile_comparison,
    compile_filter,
    fold,
)
from service.reso.filter.value_matchers import TimestampMatcher
from service.reso.ordering import BY_KEY, Position, SkipToken, SortKind, SortOrder
from service.reso.protocol import FILTER, ORDER_BY, SELECT, OptionNotImplemented
from service.reso.sets.child_sets import Child, ChildColumn, ChildKey, ChildSet
from service.reso.sets.entity_query import build_sort_order, matcher_for, selected_properties
from service.reso.sets.entity_rows import EntityRecords, EntityRow, count_distinct
from service.reso.sets.entity_set import EntityProperty
from service.search.query import Body, Clause, Selection, match_none, spellings, terms
from service.search.responses import sum_of

# For the parent of a key: its children may be on either side of the key.
_OF_PARENT = {ComparisonOperator.GT: ComparisonOperator.GE, ComparisonOperator.LT: ComparisonOperator.LE}
_NULL = FilterLiteral(LiteralType.NULL, "null")
_ALL = And(())
_timestamps = TimestampMatcher("clock")
_EQUALITY = frozenset({ComparisonOperator.EQ, ComparisonOperator.NE})
Comparison = FieldComparison | InList
Read = TypeVar("Read")


@dataclass(frozen=True)
class ChildCondition:
    """A filter of a child set; None selects all children."""

    child_set: ChildSet
    expression: FilterExpression | None
    _literals: dict[int, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def of_parents(self) -> FilterExpression | None:
        """The condition on parents, with their keys in place of their children's, which it holds for at least."""
        return None if self.expression is None else _of_parents(self.expression, self.child_set.key)

    @cached_property
    def divided(self) -> frozenset[str]:
        """The keys of the parents of whose children only some may match."""
        return frozenset(
            name
            for literal in (compared_literals(self.expression, self.child_set.key) if self.expression else ())
            for name in spellings(ChildKey.of(literal.text).parent)
            if name
        )

    def predicate(self, parent: str) -> Predicate:
        """Return whether a child of a selected parent matches, as a function.

        It raises OptionNotImplemented for what cannot be compared. A comparison with the key of another parent's child
        is decided here, so that a child is compared with no literal but those for its own parent.
        """
        if self.expression is None or parent not in self.divided:
            return lambda _: True
        return compile_filter(self.expression, partial(self._compiled, parent))

    def _compiled(self, parent: str, condition: FieldCondition) -> Predicate | bool:
        declared, name = self.child_set, condition.field
        if not isinstance(condition, FieldComparison | InList):
            return self._refused(name)
        if name == declared.key:
            return self._compiled_key(parent, condition)
        if name == declared.parent_key:
            return self._compiled_parent(parent, condition)
        if name == MODIFICATION_TIMESTAMP:
            return self._read_once(condition, _compiled_clock)
        if name == declared.parent_type:
            matches = compile_comparison(condition, lambda _: "Property", attrgetter("text"))
            return matches if isinstance(matches, bool) else matches(None)
        return self._refused(name)

    def _compiled_key(self, parent: str, condition: Comparison) -> Predicate | bool:
        if isinstance(condition, InList):
            suffixes = self._read_once(condition, _suffixes_by_parent).get(parent)
            return False if suffixes is None else lambda child: child.key.suffix in suffixes
        operator = condition.operator
        if operator not in _EQUALITY or condition.value.type is LiteralType.NULL:
            return compile_comparison(condition, attrgetter("key"), lambda value: ChildKey.of(value.text))
        suffix = self._read_once(condition, _suffixes_by_parent).get(parent)
        if suffix is None:
            return operator is ComparisonOperator.NE
        return lambda child: (child.key.suffix in suffix) is (operator is ComparisonOperator.EQ)

    def _compiled_parent(self, parent: str, condition: Comparison) -> Predicate | bool:
        if isinstance(condition, InList):
            return parent in self._read_once(condition, _parents)
        if condition.operator in _EQUALITY and condition.value.type is not LiteralType.NULL:
            return (parent in self._read_once(condition, _parents)) is (condition.operator is ComparisonOperator.EQ)
        matches = compile_comparison(condition, lambda _: parent, attrgetter("text"))
        return matches if isinstance(matches, bool) else matches(None)

    def _read_once(self, condition: Comparison, read: Callable[[Comparison], Read]) -> Read:
        """Return what `read` makes of the literals of a condition, which it does for the first parent alone."""
        if id(condition) not in self._literals:
            self._literals[id(condition)] = read(condition)
        found: Read = self._literals[id(condition)]
        return found

    def _refused(self, name: str) -> Predicate | bool:
        def refuse(_: Child) -> bool:
            raise self._refusal(name)

        return refuse

    def _refusal(self, name: str) -> OptionNotImplemented:
        return OptionNotImplemented(FILTER, f"a filter by {self.child_set.key} together with this one by {name}")


def _texts(condition: Comparison) -> list[str]:
    values = condition.values if isinstance(condition, InList) else (condition.value,)
    return [value.text for value in values if value.type is not LiteralType.NULL]


def _parents(condition: Comparison) -> set[str]:
    """Return the keys of parents in a condition, in each spelling."""
    return {name for text in _texts(condition) for name in spellings(text)}


def _suffixes_by_parent(condition: Comparison) -> dict[str, set[str]]:
    """Return the suffixes of the keys in a condition by their parent, in each spelling of it."""
    found: dict[str, set[str]] = {}
    for key in map(ChildKey.of, _texts(condition)):
        for parent in spellings(key.parent):
            found.setdefault(parent, set()).add(key.suffix)
    return found


def _compiled_clock(condition: Comparison) -> Predicate | bool:
    return compile_comparison(
        condition, lambda child: child.header.clock, lambda value: _timestamps.parse_number(value.text)
    )


def _of_parents(expression: FilterExpression, key: str) -> FilterExpression:
    def of_leaf(leaf: Leaf) -> FilterExpression:
        is_negated = isinstance(leaf, Negation)
        match leaf.condition if isinstance(leaf, Negation) else leaf:
            case FieldComparison(name, operator, value) if name == key:
                return _parent_comparison(name, operator, value, is_negated=is_negated)
            case InList(name, values) if name == key:
                parents = InList(name, tuple(map(_parent_literal, values)))
                # Refused if a value is of another type, else true of all.
                return Or((parents, _ALL)) if is_negated else parents
        return leaf

    return fold(expression, of_leaf, lambda parts: And(tuple(parts)), lambda parts: Or(tuple(parts)))


def _parent_comparison(
    name: str, operator: ComparisonOperator, value: FilterLiteral, *, is_negated: bool
) -> FilterExpression:
    if value.type is LiteralType.NULL:
        is_all = (operator is ComparisonOperator.NE) is not is_negated
        return _ALL if is_all else FieldComparison(name, ComparisonOperator.EQ, _NULL)
    operator = operator.complement if is_negated else operator
    parent = _parent_literal(value)
    if operator is ComparisonOperator.NE:
        return Or((FieldComparison(name, ComparisonOperator.EQ, parent), _ALL))
    return FieldComparison(name, _OF_PARENT.get(operator, operator), parent)


def _parent_literal(value: FilterLiteral) -> FilterLiteral:
    """Return the key of the parent in the key of a child; a literal of another type as it is, which is refused."""
    return value._replace(text=ChildKey.of(value.text).parent) if value.type is LiteralType.TEXT else value


# Parents of one search: enough for a page, and few enough to share the cluster with other requests.
_MAX_PARENTS = 200
# Parents whose children are counted by one search.
_COUNTED_PARENTS = 1_000
# Whose children are compared at once: with 500 literals, about 1 ms.
_PARENTS_OF_A_TURN = 4
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

    @property
    def searched(self) -> Searched:
        """What Elasticsearch is asked."""
        compared = {name.lower() for name in self.condition.divided}  # of whose spellings one is found
        return self.parents.searched._replace(compared_parents=len(compared))

    async def rows(self, after: Position, size: int) -> list[ChildRow]:
        """Return the next children after a position."""
        rest, parents = await asyncio.gather(
            self._siblings_after(after), self.parents.rows(after[:-1], _parents_for(size, ()))
        )
        found, wanted = list(rest), _parents_for(size, ())
        while True:
            found += await self.children_of(parents)
            if len(found) >= size or len(parents) < wanted:
                return found[:size]
            wanted = _parents_for(size - len(found), found[-_MAX_PARENTS:])
            parents = await self.parents.rows(parents[-1].position, wanted)

    async def position_after(self, number: int) -> Position | None:
        """Return the position after the first `number` children, None if there are fewer.

        They are counted without being read, but for those of divided parents and of the parent that has the last.
        """
        left, after = number, Position()
        while True:
            parents = await self.parents.counted(after, _COUNTED_PARENTS, self.child_set.counted_by)
            named = [row.id for row in parents if row.id in self.condition.divided]
            divided = await self._children_by_parent(named)
            for parent in parents:
                if parent.id in self.condition.divided:
                    children = divided.get(parent.id, [])
                elif parent.children < left:
                    left -= parent.children
                    continue
                else:
                    children = (await self._children_by_parent([parent.id])).get(parent.id, [])
                if len(children) >= left:
                    return children[left - 1].position
                left -= len(children)
            if len(parents) < _COUNTED_PARENTS:
                return None
            after = parents[-1].position

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
                found += self._children_of(parent, record)
        return found

    def _children_of(self, parent: EntityRow, record: JsonBytes) -> list[ChildRow]:
        is_descending = self.parents.ordering.keys[-1].is_descending
        matches = self.condition.predicate(parent.id)
        children = self.child_set.children(parent.id, record, parent.source)  # type: ignore[arg-type]
        return [
            ChildRow((*parent.position, child.key.suffix), parent.resource, child)
            for child in sorted(children, key=lambda child: child.key, reverse=is_descending)
            if matches(child)
        ]

    def named(self, keys: Sequence[str]) -> EntityRecords:
        """Return the parents with these keys."""
        clause = terms("_id", keys)
        return replace(
            self.parents, selections=tuple(selection.filtered(clause) for selection in self.parents.selections)
        )

    async def _siblings_after(self, after: Position) -> list[ChildRow]:
        """Return the children after a position that have the same parent, if that is still where it was."""
        if not after:
            return []
        rows = await self.children_of(await self.named([str(after[-2])]).rows((), 1))
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


async def count_children(records: ChildSelection) -> int:
    """Return the number of children; those of parents whose children are divided by the filter are read."""
    call, counted_by, divided = records.parents.call, records.child_set.counted_by, sorted(records.condition.divided)
    first, *later = [
        selection.filtered(match_none(terms("_id", divided))) if divided else selection
        for selection in records.parents.selections
    ]
    of_later = [count_distinct(call, selection, first.resource, counted_by) for selection in later]
    return sum(await asyncio.gather(_count_divided(records, divided), _sum(call, first, counted_by), *of_later))


async def _count_divided(records: ChildSelection, divided: Sequence[str]) -> int:
    if not divided:
        return 0
    parents = await records.named(divided).rows((), len(divided))
    return len(await records.children_of(parents))


async def _sum(call: RequestContext, selection: Selection, field: str) -> int:
    body: Body = {"size": 0, "query": selection.query(), "aggs": {"children": {"sum": {"field": field}}}}
    return sum_of("children", await call.search(selection.resource, body))


_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class ChildPageSource:
    """The children that a request selects."""

    call: RequestContext
    child_set: ChildSet
    records: ChildSelection
    properties: tuple[EntityProperty, ...]
    floor_event = 0

    @property
    def name(self) -> str:
        """The name of the entity set."""
        return self.child_set.name

    @property
    def position_kinds(self) -> tuple[SortKind, ...]:
        return (*self.records.parents.ordering.position_kinds, SortKind.IDENTIFIER)

    async def rows(self, cursor: SkipToken, size: int) -> list[ChildRow]:
        """Return the next rows after the position of a cursor."""
        return await self.records.rows(cursor.position, size)

    async def position_after(self, number: int) -> Position | None:
        """Return the position after the first `number` rows, None if there are fewer."""
        return await self.records.position_after(number)

    async def count(self) -> int:
        """Return the total number of rows."""
        return await count_children(self.records)

    def position(self, row: ChildRow) -> Position:
        return row.position

    @property
    def searched(self) -> Searched:
        """What Elasticsearch is asked."""
        return self.records.searched

    async def encode_rows(self, rows: Sequence[ChildRow]) -> bytes:
        """Return rows as a JSON array, in order; the records that they are from are sent."""
        sent: dict[Resource, dict[str, None]] = {}
        for row in rows:
            sent.setdefault(row.resource, {})[row.child.key.parent] = None
        for resource, names in sent.items():
            if self.call.sent is not None:
                self.call.sent.names(resource, list(names))
        return encode_children(self.properties, self.child_set.resources[0], [row.child for row in rows])


def encode_children(properties: Iterable[EntityProperty], resource: Resource, children: Iterable[Child]) -> bytes:
    """Return children as a JSON array of objects with some properties."""
    columns = [(declared.name, declared.columns[resource]) for declared in properties]
    readers = [(name, column.read) for name, column in columns if isinstance(column, ChildColumn)]
    return _encode([{name: read(child) for name, read in readers} for child in children])


def query_children(call: RequestContext, child_set: ChildSet, parent: str | None = None) -> ChildPageSource:
    """Return the children that the query options select, of one parent or of all.

    Raises InvalidRequest, Forbidden or OptionNotImplemented.
    """
    ordering = build_sort_order(call, child_set, call.parameters[ORDER_BY] or ())
    properties = selected_properties(call, child_set, call.parameters[SELECT])
    expression = _sent_filter(call, child_set, parent)
    return ChildPageSource(call, child_set, _records(call, child_set, expression, ordering), properties)


async def count_selected(call: RequestContext, child_set: ChildSet, parent: str | None = None) -> int:
    """Return the number of children that `$filter` selects; as `query_children`."""
    records = _records(call, child_set, _sent_filter(call, child_set, parent), BY_KEY)
    await charge_count(call, records.searched)
    return await count_children(records)


def query_child(call: RequestContext, child_set: ChildSet, key: str, names: Sequence[str] | None) -> ChildPageSource:
    """Return the child with a key, with some properties, None for all."""
    literal = FilterLiteral(LiteralType.TEXT, key)
    is_named = FieldComparison(child_set.key, ComparisonOperator.EQ, literal)
    # A key without a suffix names a record, not a child.
    chosen = is_named if ChildKey.of(key).suffix else FieldComparison(child_set.key, ComparisonOperator.EQ, _NULL)
    return ChildPageSource(
        call, child_set, _records(call, child_set, chosen, BY_KEY), selected_properties(call, child_set, names)
    )


def _sent_filter(call: RequestContext, child_set: ChildSet, parent: str | None) -> FilterExpression | None:
    sent = call.parameters[FILTER]
    if parent is None:
        return None if sent is None else sent.expression
    literal = FilterLiteral(LiteralType.TEXT, parent)
    of_parent = FieldComparison(child_set.parent_key, ComparisonOperator.EQ, literal)
    return of_parent if sent is None else And((of_parent, sent.expression))


def _records(
    call: RequestContext, child_set: ChildSet, expression: FilterExpression | None, ordering: SortOrder
) -> ChildSelection:
    condition = ChildCondition(child_set, expression)
    selections = tuple(_selection(call, child_set, resource, condition) for resource in child_set.resources)
    return ChildSelection(child_set, EntityRecords(call, selections, ordering), condition)


def _selection(call: RequestContext, child_set: ChildSet, resource: Resource, condition: ChildCondition) -> Selection:
    """Return the parents that have children; none if the key may not see them."""
    call.require(resource, (child_set.counted_by,))
    clauses: list[Clause] = [{"exists": {"field": child_set.counted_by}}]
    if child_set.group(resource) in call.visibility.withheld:
        clauses.append(MATCH_NONE)
    if condition.of_parents is not None:
        find_matcher = partial(matcher_for, call, child_set, resource)
        clauses.append(build_clause(condition.of_parents, find_matcher))
    return call.selection(resource, tuple(clauses))
