"""From `$orderby` to an order of records."""

from collections.abc import Sequence

from service.errors import Forbidden, InvalidRequest
from service.request_context import RequestContext
from service.reso.entity_sets.entity_set import EntityProperty, EntitySet
from service.reso.entity_sets.ordering import BY_KEY, SortKey, SortOrder
from service.reso.entity_sets.sort_fields import ID
from service.reso.protocol.odata_errors import OptionNotImplemented
from service.reso.protocol.option_names import ORDER_BY, OrderBy


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
    for resource, column in declared.columns.items():
        if column.group in call.visibility.withheld:
            raise Forbidden.of(ORDER_BY, f"this key may not see the field group {column.group}.")
        if call.visibility.display and column.source_member in resource.address:
            reason = "this key may not see every address"
            raise Forbidden.of(ORDER_BY, f"{reason}, so {entity_set.name} has no order by {declared.name}.")
