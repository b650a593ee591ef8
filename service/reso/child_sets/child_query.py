"""The children that a request selects, and their encoding under Data Dictionary names."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from mappings.resource import Resource
from service.request_context import RequestContext
from service.reso.child_sets.child_condition import ChildCondition
from service.reso.child_sets.child_count import count_children
from service.reso.child_sets.child_rows import ChildRow, ChildSelection
from service.reso.child_sets.child_set import Child, ChildColumn, ChildKey, ChildSet
from service.reso.entity_sets.entity_query import matcher_for, selected_properties
from service.reso.entity_sets.entity_rows import EntityRecords
from service.reso.entity_sets.entity_set import EntityProperty
from service.reso.entity_sets.order_options import build_sort_order
from service.reso.entity_sets.ordering import BY_KEY, SortOrder
from service.reso.entity_sets.sort_fields import SortKind
from service.reso.filter.clause_builder import build_clause
from service.reso.filter.expression import (
    ComparisonOperator,
    FieldComparison,
    FilterExpression,
    FilterLiteral,
    LiteralType,
)
from service.reso.filter.matchers import MATCH_NONE
from service.reso.paging.skip_token import Position, SkipToken
from service.reso.protocol.option_names import FILTER, ORDER_BY, SELECT
from service.search.query import Clause, Selection

_encode = msgspec.json.Encoder().encode
ChildEncoder = dict[str, "Callable[[Child], object]"]


@dataclass(frozen=True)
class ChildPageSource:
    """The children that a request selects."""

    call: RequestContext
    child_set: ChildSet
    records: ChildSelection
    properties: tuple[EntityProperty, ...]

    @property
    def name(self) -> str:
        """The name of the entity set."""
        return self.child_set.name

    @property
    def position_kinds(self) -> tuple[SortKind, ...]:
        """The types of the sort values of a position."""
        return (*self.records.parents.ordering.position_kinds, SortKind.IDENTIFIER)

    async def start(self, cursor: SkipToken) -> SkipToken:
        """Return the cursor unchanged."""
        return cursor

    async def rows(self, cursor: SkipToken, size: int) -> list[ChildRow]:
        """Return the next rows after the position of a cursor."""
        return await self.records.rows(cursor.position, size)

    async def position_after(self, number: int) -> Position | None:
        """Return the position after the first `number` rows, None if there are fewer."""
        rows = await self.records.rows((), number)
        return rows[-1].position if len(rows) == number else None

    async def count(self) -> int:
        """Return the total number of rows."""
        return await count_children(self.records)

    def position(self, row: ChildRow) -> Position:
        """Return the position of a row."""
        return row.position

    def encode_rows(self, rows: Sequence[ChildRow]) -> bytes:
        """Return rows as a JSON array, in order; the records that they are from are sent."""
        sent: dict[Resource, dict[str, None]] = {}
        for row in rows:
            sent.setdefault(row.resource, {})[row.child.key.parent] = None
        for resource, names in sent.items():
            self.call.sent.names(resource, list(names))
        return encode_children(self.properties, self.child_set.resources[0], [row.child for row in rows])


def encode_children(properties: Iterable[EntityProperty], resource: Resource, children: Iterable[Child]) -> bytes:
    """Return children as a JSON array of objects with some properties."""
    columns = [(declared.name, declared.columns[resource]) for declared in properties]
    readers = [(name, column.read) for name, column in columns if isinstance(column, ChildColumn)]
    return _encode([{name: read(child) for name, read in readers} for child in children])


def query_children(call: RequestContext, child_set: ChildSet) -> ChildPageSource:
    """Return the children that the query options select; raise InvalidRequest, Forbidden or OptionNotImplemented."""
    ordering = build_sort_order(call, child_set, call.parameters[ORDER_BY] or ())
    properties = selected_properties(call, child_set, call.parameters[SELECT])
    return ChildPageSource(call, child_set, _records(call, child_set, _sent_filter(call), ordering), properties)


async def count_selected(call: RequestContext, child_set: ChildSet) -> int:
    """Return the number of children that `$filter` selects; raise as `query_children`."""
    return await count_children(_records(call, child_set, _sent_filter(call), BY_KEY))


def query_child(call: RequestContext, child_set: ChildSet, key: str, names: Sequence[str] | None) -> ChildPageSource:
    """Return the child with a key, with some properties, None for all."""
    literal = FilterLiteral(LiteralType.TEXT, key)
    is_named = FieldComparison(child_set.key, ComparisonOperator.EQ, literal)
    # A key without a suffix names a record, not a child.
    chosen = is_named if ChildKey.of(key).suffix else FieldComparison(child_set.key, ComparisonOperator.EQ, _NULL)
    return ChildPageSource(
        call, child_set, _records(call, child_set, chosen, BY_KEY), selected_properties(call, child_set, names)
    )


_NULL = FilterLiteral(LiteralType.NULL, "null")


def _sent_filter(call: RequestContext) -> FilterExpression | None:
    sent = call.parameters[FILTER]
    return None if sent is None else sent.expression


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
