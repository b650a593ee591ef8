"""The pages of children, and their encoding under Data Dictionary names."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from mappings.resource import Resource
from service.background import batches_in_turns
from service.request_context import RequestContext
from service.reso.cost import Searched, charge_count
from service.reso.filter.clauses import build_clause
from service.reso.filter.expression import (
    And,
    ComparisonOperator,
    FieldComparison,
    FilterExpression,
    FilterLiteral,
    LiteralType,
    conditions,
)
from service.reso.ordering import BY_KEY, Position, SkipToken, SortKind, SortOrder
from service.reso.protocol import FILTER, ORDER_BY, SELECT
from service.reso.sets.child_condition import NULL, ChildCondition
from service.reso.sets.child_order import ChildrenInOrder, in_order
from service.reso.sets.child_selection import ChildRow, ChildSelection
from service.reso.sets.child_sets import Child, ChildColumn, ChildKey, ChildSet
from service.reso.sets.entity_query import build_sort_order, matcher_for, require_shown, selected_properties
from service.reso.sets.entity_set import EntityProperty

_encode = msgspec.json.Encoder().encode
_ROWS_OF_A_TURN = 20


@dataclass(frozen=True)
class ChildPageSource:
    """The children that a request selects."""

    call: RequestContext
    child_set: ChildSet
    records: ChildSelection | ChildrenInOrder
    properties: tuple[EntityProperty, ...]
    floor_event = 0

    @property
    def name(self) -> str:
        """The name of the entity set."""
        return self.child_set.name

    @property
    def position_kinds(self) -> tuple[SortKind, ...]:
        return self.records.position_kinds

    async def rows(self, cursor: SkipToken, size: int) -> list[ChildRow]:
        """Return the next rows after the position of a cursor."""
        return await self.records.rows(cursor.position, size)

    async def position_after(self, number: int) -> Position | None:
        """Return the position after the first `number` rows, None if there are fewer."""
        return await self.records.position_after(number)

    async def count(self) -> int:
        """Return the total number of rows."""
        return await self.records.count()

    def position(self, row: ChildRow) -> Position:
        return row.position

    @property
    def searched(self) -> Searched:
        """What Elasticsearch is asked."""
        return self.records.searched

    async def encode_rows(self, rows: Sequence[ChildRow]) -> list[bytes]:
        """Return rows as JSON objects, in order, many in a part; the records that they are from are sent."""
        sent: dict[Resource, dict[str, None]] = {}
        for row in rows:
            sent.setdefault(row.resource, {})[row.child.key.parent] = None
        for resource, names in sent.items():
            if self.call.sent is not None:
                self.call.sent.names(resource, list(names))
        return [
            encode_children(self.properties, self.child_set.resources[0], [row.child for row in some])[1:-1]
            async for some in batches_in_turns(rows, _ROWS_OF_A_TURN)
        ]


def encode_children(properties: Iterable[EntityProperty], resource: Resource, children: Iterable[Child]) -> bytes:
    """Return children as a JSON array of objects with some properties."""
    columns = [(declared.name, declared.columns[resource]) for declared in properties]
    readers = [(name, column.read) for name, column in columns if isinstance(column, ChildColumn)]
    return _encode([{name: read(child) for name, read in readers} for child in children])


def query_children(call: RequestContext, child_set: ChildSet, parent: str | None = None) -> ChildPageSource:
    """Return the children that the query options select, of one parent or of all.

    Raises InvalidRequest, Forbidden or OptionNotImplemented.
    """
    properties = selected_properties(call, child_set, call.parameters[SELECT])
    orders = call.parameters[ORDER_BY] or ()
    ordered = [order for order in orders if child_set.tokens(order.name) is not None]
    ordering = build_sort_order(call, child_set, [order for order in orders if order not in ordered])
    records = _records(call, child_set, _sent_filter(call, child_set, parent), ordering)
    return ChildPageSource(call, child_set, in_order(records, orders) if ordered else records, properties)


async def count_selected(call: RequestContext, child_set: ChildSet, parent: str | None = None) -> int:
    """Return the number of children that `$filter` selects; as `query_children`."""
    records = _records(call, child_set, _sent_filter(call, child_set, parent), BY_KEY)
    await charge_count(call, records.searched)
    return await records.count()


def query_child(call: RequestContext, child_set: ChildSet, key: str, names: Sequence[str] | None) -> ChildPageSource:
    """Return the child with a key, with some properties, None for all."""
    literal = FilterLiteral(LiteralType.TEXT, key)
    is_named = FieldComparison(child_set.key, ComparisonOperator.EQ, literal)
    # A key without a suffix names a record, not a child.
    chosen = is_named if ChildKey.of(key).suffix else FieldComparison(child_set.key, ComparisonOperator.EQ, NULL)
    records = _records(call, child_set, chosen, BY_KEY)
    return ChildPageSource(call, child_set, records, selected_properties(call, child_set, names))


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
    if condition.tokens and expression is not None:
        # Also of what tokens decide alone, so that no name is ignored.
        rest = And(tuple(one for one in conditions(expression) if one not in condition.tokens))
        build_clause(rest, partial(matcher_for, call, child_set, child_set.resources[0]))
        require_shown(call, child_set.properties[child_set.key], FILTER)
    return ChildSelection(call, child_set, condition, ordering)
