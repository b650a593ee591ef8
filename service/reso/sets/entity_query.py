"""The entities that a request selects, their order, and their encoding under Data Dictionary names."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial

import msgspec

from mappings.resource import Resource
from service.background import batches_in_turns
from service.errors import Forbidden, InvalidRequest
from service.request_context import RequestContext
from service.reso.cost import Searched, charge_count
from service.reso.filter.clauses import Matcher, ShownAddressMatcher, build_clause
from service.reso.ordering import BY_KEY, ID, Position, SkipToken, SortKey, SortKind, SortOrder
from service.reso.protocol import FILTER, ORDER_BY, SELECT, OptionNotImplemented, OrderBy
from service.reso.sets.child_condition import ChildMatcher
from service.reso.sets.child_sets import ChildSet
from service.reso.sets.entity_encoder import EntityEncoder, EntityHit, entity_encoder
from service.reso.sets.entity_rows import EntityRecords, EntityRow
from service.reso.sets.entity_set import EntityProperty, EntitySet
from service.search.query import by_id

_encode = msgspec.json.Encoder().encode
_ROWS_OF_A_TURN = 50
Children = Mapping[str, ChildSet]
_NO_CHILDREN: Children = {}


@dataclass(frozen=True)
class EntityPageSource:
    """The entities that a request selects."""

    call: RequestContext
    entity_set: EntitySet
    records: EntityRecords
    properties: tuple[EntityProperty, ...]
    floor_event = 0

    @property
    def name(self) -> str:
        return self.entity_set.name

    @property
    def position_kinds(self) -> tuple[SortKind, ...]:
        return self.records.ordering.position_kinds

    @property
    def searched(self) -> Searched:
        """What Elasticsearch is asked."""
        return self.records.searched

    async def rows(self, cursor: SkipToken, size: int) -> list[EntityRow]:
        """Return the next rows after the position of a cursor."""
        return await self.records.page(cursor.position, size, self._decode)

    async def position_after(self, number: int) -> Position | None:
        """Return the position after the first `number` rows, None if there are fewer."""
        return await self.records.position_after(number)

    async def count(self) -> int:
        """Return the total number of rows."""
        return await self.records.count()

    def position(self, row: EntityRow) -> Position:
        return row.position

    async def encode_rows(self, rows: Sequence[EntityRow]) -> list[bytes]:
        """Return rows as JSON objects, in order, many in a part; once, as records are converted in place."""
        encoded: list[bytes] = []
        # Many in one call: it takes two thirds of the time of one for each.
        async for some in batches_in_turns(rows, _ROWS_OF_A_TURN):
            self._convert(some)
            encoded.append(_encode([row.record for row in some])[1:-1])
        return encoded

    def encode_each(self, rows: Sequence[EntityRow]) -> list[bytes]:
        """Return rows whose records are JSON text as JSON objects, in order."""
        copies = [row._replace(source=copy(row.source)) for row in rows]
        for resource in {row.resource for row in copies}:
            own = [row.source for row in copies if row.resource is resource]
            self._encoder(resource).load(own, self.records.variant(resource))
        self._convert(copies)
        return [_encode(row.record) for row in copies]

    def _convert(self, rows: Sequence[EntityRow]) -> None:
        for resource in {row.resource for row in rows}:
            own = [row for row in rows if row.resource is resource]
            if self.call.sent is not None:
                self.call.sent.names(resource, [row.id for row in own])
            self._encoder(resource).convert([row.source for row in own])

    async def _decode(self, resource: Resource, response: bytes) -> list[EntityHit]:
        return await self._encoder(resource).decode(response, self.records.variant(resource))

    def _encoder(self, resource: Resource) -> EntityEncoder:
        return entity_encoder(resource, self.properties)


def query_records(
    call: RequestContext, entity_set: EntitySet, names: Sequence[str] | None, children: Children
) -> EntityPageSource:
    """Return the entities that the query options select, with some properties; raise InvalidRequest or Forbidden."""
    ordering = build_sort_order(call, entity_set, call.parameters[ORDER_BY] or ())
    properties = selected_properties(call, entity_set, names)
    return EntityPageSource(call, entity_set, _selected_records(call, entity_set, ordering, children), properties)


async def count_records(call: RequestContext, entity_set: EntitySet, children: Children) -> int:
    """Return the number of entities that `$filter` selects; raise InvalidRequest or Forbidden."""
    records = _selected_records(call, entity_set, BY_KEY, children)
    await charge_count(call, records.searched)
    return await records.count()


def _selected_records(
    call: RequestContext, entity_set: EntitySet, ordering: SortOrder, children: Children
) -> EntityRecords:
    sent = call.parameters[FILTER]
    selections = []
    for resource in entity_set.resources:
        find_matcher = partial(matcher_for, call, entity_set, resource, children=children)
        clauses = () if sent is None else (build_clause(sent.expression, find_matcher),)
        selections.append(call.selection(resource, clauses))
    return EntityRecords(call, tuple(selections), ordering)


def query_record(
    call: RequestContext, entity_set: EntitySet, key: str, names: Sequence[str] | None
) -> EntityPageSource:
    """Return the entity with a key, with some properties, None for all; raise InvalidRequest for an unknown one."""
    selections = tuple(call.selection(resource, (by_id(key),)) for resource in entity_set.resources)
    return EntityPageSource(
        call, entity_set, EntityRecords(call, selections, BY_KEY), selected_properties(call, entity_set, names)
    )


def matcher_for(
    call: RequestContext, entity_set: EntitySet, resource: Resource, name: str, *, children: Children = _NO_CHILDREN
) -> Matcher:
    """Return the matcher of a property in a resource; raise ApiError if the key may not filter by it, or none can.

    `children` are the child sets to which navigation properties lead.
    """
    declared = entity_set.properties.get(name)
    if declared is None and name in children:
        require_shown(call, children[name].properties[children[name].key], FILTER)
        return ChildMatcher(children[name], partial(call.require, resource))
    if declared is None:
        raise InvalidRequest.of(FILTER, f"{entity_set.name} has no property {name!r}.")
    require_shown(call, declared, FILTER)
    matcher = declared.matcher(resource)
    if matcher is None:
        filterable = ", ".join(entity_set.filterable)
        raise OptionNotImplemented(FILTER, f"a filter by {name} (possible by {filterable})")
    if resource not in declared.columns:
        return matcher
    column = declared.columns[resource]
    call.require(resource, column.search.fields)
    is_address = column.source_member in resource.address
    return ShownAddressMatcher(matcher) if call.visibility.display and is_address else matcher


def require_shown(call: RequestContext, declared: EntityProperty, option: str) -> None:
    """Raise Forbidden for a property that the key may not see."""
    groups = {column.group for column in declared.columns.values()}
    if hidden := groups & call.visibility.withheld:
        raise Forbidden.of(option, f"this key may not see the field group {hidden.pop()}.")


def selected_properties(
    call: RequestContext, entity_set: EntitySet, names: Sequence[str] | None, option: str = SELECT
) -> tuple[EntityProperty, ...]:
    """Return the selected properties, always including the key; raise InvalidRequest naming the option."""
    known = entity_set.properties
    if unknown := [name for name in names or () if name not in known]:
        raise InvalidRequest.of(option, f"{entity_set.name} has no property {unknown[0]!r}.")
    wanted = known.keys() if names is None else {*names}
    selected = tuple(declared for name, declared in known.items() if declared.is_key or name in wanted)
    for declared in selected:
        for resource, column in declared.columns.items():
            call.require(resource, column.reads)
    return selected


def build_sort_order(call: RequestContext, entity_set: EntitySet, orders: Sequence[OrderBy]) -> SortOrder:
    """Return the requested order; raise ApiError for a property that is not sortable, or that the key may not see."""
    keys: list[SortKey] = []
    for order in orders:
        if (declared := entity_set.properties.get(order.name)) is None:
            raise InvalidRequest.of(ORDER_BY, f"{entity_set.name} has no property {order.name!r}.")
        keys.append(_sort_key(call, entity_set, declared, order))
        if declared.is_key:
            break  # keys after the identifier, which is unique, change nothing
    is_unique = bool(keys) and not keys[-1].by_resource
    return SortOrder(tuple(keys)) if is_unique else SortOrder((*keys, *BY_KEY.keys))


def _sort_key(call: RequestContext, entity_set: EntitySet, declared: EntityProperty, order: OrderBy) -> SortKey:
    _require_visible(call, entity_set, declared)
    if declared.is_key:
        return SortKey(ID.kind, order.is_descending, {})
    fields = {resource: declared.sort_field(resource) for resource in entity_set.resources}
    by_resource = {resource: field for resource, field in fields.items() if field is not None}
    if not declared.is_sortable or not by_resource:
        known = ", ".join(entity_set.sortable)
        raise OptionNotImplemented(ORDER_BY, f"an order by {order.name} (possible by {known})")
    for resource, column in declared.columns.items():
        call.require(resource, column.search.fields)
    return SortKey(next(iter(by_resource.values())).kind, order.is_descending, by_resource)


def _require_visible(call: RequestContext, entity_set: EntitySet, declared: EntityProperty) -> None:
    """Raise Forbidden for an order that would show what the key may not see."""
    require_shown(call, declared, ORDER_BY)
    for resource, column in declared.columns.items():
        if call.visibility.display and column.source_member in resource.address:
            reason = "this key may not see every address"
            raise Forbidden.of(ORDER_BY, f"{reason}, so {entity_set.name} has no order by {declared.name}.")
