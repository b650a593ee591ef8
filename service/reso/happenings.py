"""From the options of a request to the events that are asked for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from service.errors import InvalidRequest
from service.reso.clauses import clause_of
from service.reso.edm import Edm
from service.reso.entities import OF_RESOURCE
from service.reso.events import KEY, NAME, NUMBER, RESOURCE, URL, Events
from service.reso.exact import EVERYTHING, Constant
from service.reso.expression import Comparison, Expression, Literal, Operator, Sort
from service.reso.options import FILTER, ORDER, SELECT
from service.reso.places import departures
from service.reso.told import Numbered, Recorded, compared_texts, lower_bound

if TYPE_CHECKING:
    from mappings.resource import Resource
    from service.operation import Call
    from service.query import Clause
    from service.reso.exact import Found
    from service.reso.sequence import Ledger

PROPERTIES = {NUMBER: Edm.INT64, RESOURCE: Edm.STRING, KEY: Edm.STRING, URL: Edm.STRING}
FILTERED = (NUMBER, RESOURCE, KEY)
_TOLD = tuple(OF_RESOURCE)


async def happenings(call: Call) -> Events:
    """Return the events that the options of a request choose; raise InvalidRequest."""
    sent = call.parameters[FILTER]
    expression = None if sent is None else sent.expression
    ledger = await call.services.events.get()
    clauses = await _clauses(call, ledger, expression)
    bound = 0 if expression is None else lower_bound(expression, NUMBER)
    return Events(call, ledger, clauses, bound, _is_descending(call), _names(call))


async def happening(call: Call, number: str) -> Events:
    """Return the one event with a number, if there is."""
    ledger = await call.services.events.get()
    asked = Comparison(NUMBER, Operator.EQ, Literal(Sort.NUMBER, number))
    return Events(call, ledger, await _clauses(call, ledger, asked), 0, is_descending=False, names=_names(call))


async def _clauses(call: Call, ledger: Ledger, expression: Expression | None) -> dict[Resource, Clause]:
    if expression is None:
        return dict.fromkeys(_TOLD, EVERYTHING)
    made = await asyncio.gather(*(_clause(call, ledger, expression, resource) for resource in _TOLD))
    return dict(zip(_TOLD, made, strict=True))


async def _clause(call: Call, ledger: Ledger, expression: Expression, resource: Resource) -> Clause:
    keys = compared_texts(expression, KEY)
    gone = await departures(call, resource, keys) if keys and ledger.upto(resource.alias) else {}
    known: dict[str, Found] = {
        NUMBER: Numbered("sequence", ledger=ledger, alias=resource.alias),
        RESOURCE: Constant(OF_RESOURCE[resource].name),
        KEY: Recorded(gone),
    }

    def found(name: str) -> Found:
        if name not in known:
            about = "cannot be filtered by" if name in PROPERTIES else "is no property of EntityEvent"
            raise InvalidRequest.of(FILTER, f"{name} {about}; these can: {', '.join(FILTERED)}.")
        return known[name]

    return clause_of(expression, found)


def _is_descending(call: Call) -> bool:
    orders = call.parameters[ORDER] or ()
    for order in orders:
        if order.name != NUMBER:
            about = "cannot be ordered by" if order.name in PROPERTIES else f"is no property of {NAME}"
            raise InvalidRequest.of(ORDER, f"{order.name} {about}; {NUMBER} can.")
    return any(order.is_descending for order in orders)


def _names(call: Call) -> tuple[str, ...]:
    names = call.parameters[SELECT]
    if names is None:
        return tuple(PROPERTIES)
    if unknown := [name for name in names if name not in PROPERTIES]:
        raise InvalidRequest.of(SELECT, f"{NAME} has no property {unknown[0]!r}.")
    return tuple(name for name in PROPERTIES if name == NUMBER or name in names)
