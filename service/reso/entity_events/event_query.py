"""From the query options of a request to the matching events."""

import asyncio

from mappings.resource import Resource
from service.errors import InvalidRequest
from service.request_context import RequestContext
from service.reso.entity_events.event_ledger import EventLedger, Events
from service.reso.entity_events.event_matchers import (
    EventKeyMatcher,
    EventNumberMatcher,
    compared_values,
    filter_lower_bound,
)
from service.reso.entity_events.event_rows import (
    EVENT_ENTITY_SET,
    KEY_PROPERTY,
    RESOURCE_PROPERTY,
    SEQUENCE_PROPERTY,
    URL_PROPERTY,
    EventPageSource,
)
from service.reso.entity_sets.declarations import ENTITY_SET_BY_RESOURCE
from service.reso.entity_sets.doc_values import find_moves
from service.reso.entity_sets.edm_types import EdmType
from service.reso.filter.clause_builder import build_clause
from service.reso.filter.expression import (
    ComparisonOperator,
    FieldComparison,
    FilterExpression,
    FilterLiteral,
    LiteralType,
)
from service.reso.filter.lookup_matchers import ConstantMatcher
from service.reso.filter.matchers import MATCH_ALL, Matcher
from service.reso.protocol.option_names import FILTER, ORDER_BY, SELECT
from service.search.query import Clause, spellings

EVENT_PROPERTIES = {
    SEQUENCE_PROPERTY: EdmType.INT64,
    RESOURCE_PROPERTY: EdmType.STRING,
    KEY_PROPERTY: EdmType.STRING,
    URL_PROPERTY: EdmType.STRING,
}
FILTERABLE_PROPERTIES = (SEQUENCE_PROPERTY, RESOURCE_PROPERTY, KEY_PROPERTY)
_EVENT_RESOURCES = tuple(ENTITY_SET_BY_RESOURCE)


async def query_events(call: RequestContext) -> EventPageSource:
    """Return the events that the query options select; raise InvalidRequest."""
    sent = call.parameters[FILTER]
    expression = None if sent is None else sent.expression
    ledger = await _current_ledger(call)
    clauses = await _clauses(call, ledger, expression)
    bound = 0 if expression is None else filter_lower_bound(expression, SEQUENCE_PROPERTY)
    return EventPageSource(call, ledger, clauses, bound, _is_descending(call), _selected_names(call))


async def _current_ledger(call: RequestContext) -> EventLedger:
    """Return the ledger; raise ApiError if it cannot be renewed, or if data that it numbers were replaced."""
    ledger = await call.services.of(Events).get_renewed()
    for resource in _EVENT_RESOURCES:
        call.services.engine.require_continued(call.services.connection.alias(resource))
    return ledger


async def query_event(call: RequestContext, number: str) -> EventPageSource:
    """Return the event with a number."""
    ledger = await _current_ledger(call)
    condition = FieldComparison(SEQUENCE_PROPERTY, ComparisonOperator.EQ, FilterLiteral(LiteralType.NUMBER, number))
    return EventPageSource(
        call, ledger, await _clauses(call, ledger, condition), 0, is_descending=False, names=_selected_names(call)
    )


async def _clauses(
    call: RequestContext, ledger: EventLedger, expression: FilterExpression | None
) -> dict[Resource, Clause]:
    if expression is None:
        return dict.fromkeys(_EVENT_RESOURCES, MATCH_ALL)
    clauses = await asyncio.gather(*(_clause(call, ledger, expression, resource) for resource in _EVENT_RESOURCES))
    return dict(zip(_EVENT_RESOURCES, clauses, strict=True))


async def _clause(
    call: RequestContext, ledger: EventLedger, expression: FilterExpression, resource: Resource
) -> Clause:
    keys = {name for text in compared_values(expression, KEY_PROPERTY) for name in spellings(text)}
    moves = await find_moves(call, resource, keys) if keys and ledger.published_sequence(resource.alias) else {}
    matchers: dict[str, Matcher] = {
        SEQUENCE_PROPERTY: EventNumberMatcher("sequence", ledger=ledger, alias=resource.alias),
        RESOURCE_PROPERTY: ConstantMatcher(ENTITY_SET_BY_RESOURCE[resource].name),
        KEY_PROPERTY: EventKeyMatcher(moves),
    }

    def matcher_for(name: str) -> Matcher:
        if name not in matchers:
            reason = "cannot be used in $filter" if name in EVENT_PROPERTIES else "is not a property of EntityEvent"
            raise InvalidRequest.of(FILTER, f"{name} {reason}; these can: {', '.join(FILTERABLE_PROPERTIES)}.")
        return matchers[name]

    return build_clause(expression, matcher_for)


def _is_descending(call: RequestContext) -> bool:
    orders = call.parameters[ORDER_BY] or ()
    for order in orders:
        if order.name != SEQUENCE_PROPERTY:
            known = order.name in EVENT_PROPERTIES
            reason = "cannot be used in $orderby" if known else f"is not a property of {EVENT_ENTITY_SET}"
            raise InvalidRequest.of(ORDER_BY, f"{order.name} {reason}; {SEQUENCE_PROPERTY} can.")
    return any(order.is_descending for order in orders)


def _selected_names(call: RequestContext) -> tuple[str, ...]:
    names = call.parameters[SELECT]
    if names is None:
        return tuple(EVENT_PROPERTIES)
    if unknown := [name for name in names if name not in EVENT_PROPERTIES]:
        raise InvalidRequest.of(SELECT, f"{EVENT_ENTITY_SET} has no property {unknown[0]!r}.")
    return tuple(name for name in EVENT_PROPERTIES if name == SEQUENCE_PROPERTY or name in names)
