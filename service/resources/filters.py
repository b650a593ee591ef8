"""The filters of a request: the clauses of its parameters, and rules that combine parameters or need a lookup."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache

from marshmallow import Schema

from service.collected_faults import CollectedFaults
from service.parameters.clauses import ClauseBuilder
from service.parameters.types import Parameter
from service.request_context import RequestContext
from service.search.display import with_shown_address
from service.search.query import Clause


@dataclass(frozen=True, kw_only=True)
class FilterRule:
    """A filter beyond a single parameter's clause: it combines several parameters, or looks up a reference first.

    `parameters` are the parameters it reads, `fields` the search fields that its clauses use.
    """

    parameters: tuple[str, ...]
    fields: tuple[str, ...]
    clauses: Callable[[RequestContext], Awaitable[list[Clause]]]


async def filter_clauses(
    call: RequestContext, rules: Sequence[FilterRule], address_fields: frozenset[str] = frozenset()
) -> tuple[Clause, ...]:
    """Return the clauses of all parameters and rules; raise ApiError for an invalid reference.

    `address_fields` are search fields of addresses, by which hidden ones are not found (`mappings.display`).
    """
    sent, hidden = call.parameters, address_fields if address_fields and call.display else frozenset[str]()
    built = ((builder.field, builder.clause(sent[name], sent)) for name, builder in _builders(call.schema))
    clauses = [with_shown_address(clause) if field in hidden else clause for field, clause in built if clause]
    faults = CollectedFaults()
    for rule in rules:
        with faults.collect():
            found, is_open = await rule.clauses(call), hidden.isdisjoint(rule.fields)
            clauses += found if is_open else map(with_shown_address, found)
    faults.raise_any()
    return tuple(clauses)


@cache
def _builders(schema: Schema) -> tuple[tuple[str, ClauseBuilder], ...]:
    """Return the parameters of a schema that have a clause."""
    parameters = {name: field for name, field in schema.fields.items() if isinstance(field, Parameter)}
    return tuple((name, parameter.clause) for name, parameter in parameters.items() if parameter.clause is not None)
