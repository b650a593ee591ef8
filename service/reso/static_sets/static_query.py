"""The rows of a static set that a request selects."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from service.errors import InvalidRequest
from service.request_context import RequestContext
from service.reso.entity_sets.entity_query import selected_properties
from service.reso.entity_sets.entity_set import EntityProperty
from service.reso.entity_sets.sort_fields import SortKind
from service.reso.paging.skip_token import Position, SkipToken
from service.reso.protocol.odata_errors import OptionNotImplemented
from service.reso.protocol.option_names import FILTER, ORDER_BY, SELECT, OrderBy
from service.reso.static_sets.static_filter import StaticFilter
from service.reso.static_sets.static_set import StaticSet

Row = dict[str, str]
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class StaticPageSource:
    """The rows that a request selects, in order."""

    static_set: StaticSet
    selected: Sequence[Row]
    properties: tuple[EntityProperty, ...]
    is_descending: bool = False
    position_kinds = (SortKind.IDENTIFIER,)

    @property
    def name(self) -> str:
        """The name of the entity set."""
        return self.static_set.name

    async def start(self, cursor: SkipToken) -> SkipToken:
        """Return the cursor unchanged."""
        return cursor

    async def rows(self, cursor: SkipToken, size: int) -> list[Row]:
        """Return the next rows after the position of a cursor."""
        if not cursor.position:
            return list(self.selected[:size])
        reached, key = str(cursor.position[0]), self.static_set.key
        after = [row for row in self.selected if row[key] != reached and (row[key] < reached) is self.is_descending]
        return after[:size]

    async def position_after(self, number: int) -> Position | None:
        """Return the position after the first `number` rows, None if there are fewer."""
        return self.position(self.selected[number - 1]) if len(self.selected) >= number else None

    async def count(self) -> int:
        """Return the total number of rows."""
        return len(self.selected)

    def position(self, row: Row) -> Position:
        """Return the position of a row."""
        return (row[self.static_set.key],)

    def encode_rows(self, rows: Sequence[Row]) -> bytes:
        """Return rows as a JSON array, in order."""
        names = [declared.name for declared in self.properties]
        return _encode([{name: row[name] for name in names} for row in rows])


def query_static(call: RequestContext, static_set: StaticSet) -> StaticPageSource:
    """Return the rows that the query options select; raise InvalidRequest or OptionNotImplemented."""
    is_descending = _is_descending(call, static_set)
    rows = select_static(call, static_set)
    properties = selected_properties(call, static_set, call.parameters[SELECT])
    return StaticPageSource(static_set, rows[::-1] if is_descending else rows, properties, is_descending)


def select_static(call: RequestContext, static_set: StaticSet) -> list[Row]:
    """Return the rows that `$filter` selects; raise InvalidRequest or OptionNotImplemented."""
    rows, sent = static_set.visible(call.visibility.withheld), call.parameters[FILTER]
    return rows if sent is None else list(filter(StaticFilter(static_set, sent.expression).holds, rows))


def query_static_row(
    call: RequestContext, static_set: StaticSet, key: str, names: Sequence[str] | None
) -> StaticPageSource:
    """Return the row with a key, with some properties, None for all; raise InvalidRequest for an unknown one."""
    rows = [row for row in static_set.visible(call.visibility.withheld) if row[static_set.key] == key]
    return StaticPageSource(static_set, rows, selected_properties(call, static_set, names))


def _is_descending(call: RequestContext, static_set: StaticSet) -> bool:
    orders: Sequence[OrderBy] = call.parameters[ORDER_BY] or ()
    for order in orders:
        if order.name not in static_set.properties:
            raise InvalidRequest.of(ORDER_BY, f"{static_set.name} has no property {order.name!r}.")
    if orders and orders[0].name != static_set.key:
        raise OptionNotImplemented(ORDER_BY, f"an order by {orders[0].name} (possible by {static_set.key})")
    return bool(orders) and orders[0].is_descending
