"""Filters by reference: records of an agent or office, which must exist (decisions, agent and office filters)."""

from collections.abc import Callable
from functools import partial

from service.request_context import RequestContext
from service.resources.filters import FilterRule
from service.search.query import Clause, match_any, term, term_in_any_spelling
from service.search.references import referenced_agents, referenced_office

_BUYER_SIDE = "include_buyer_listings"
_AGENT_PARAMETERS = ("agent_uuid", "platform_agent_id", "source_agent_id")


def agent_rule(field: str, buyer_field: str = "") -> FilterRule:
    """Return the rule that selects records of every agent that the parameters refer to.

    `field` holds the agents of a record; `buyer_field` those of its buyer, searched with `include_buyer_listings`.
    """
    parameters, fields = _declared(_AGENT_PARAMETERS, field, buyer_field)
    return FilterRule(parameters=parameters, fields=fields, clauses=partial(_of_agents, field, buyer_field))


def office_rule(field: str, buyer_field: str = "") -> FilterRule:
    """Return the rule that selects records of the office in `platform_office_id`; fields as for agents."""
    parameters, fields = _declared(("platform_office_id",), field, buyer_field)
    return FilterRule(parameters=parameters, fields=fields, clauses=partial(_of_office, field, buyer_field))


def _declared(parameters: tuple[str, ...], field: str, buyer_field: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return ((*parameters, _BUYER_SIDE), (field, buyer_field)) if buyer_field else (parameters, (field,))


async def _of_agents(field: str, buyer_field: str, call: RequestContext) -> list[Clause]:
    return [_on_either_side(call, field, buyer_field, term, uuid) for uuid in await referenced_agents(call)]


async def _of_office(field: str, buyer_field: str, call: RequestContext) -> list[Clause]:
    office = await referenced_office(call)
    # Sources may write the same UUID in one case in offices, in another in the records that refer to them.
    return [] if office is None else [_on_either_side(call, field, buyer_field, term_in_any_spelling, office)]


def _on_either_side(
    call: RequestContext, field: str, buyer_field: str, match: Callable[[str, str], Clause], identifier: str
) -> Clause:
    sides = (field, buyer_field) if buyer_field and call.parameters[_BUYER_SIDE] else (field,)
    return match_any(*(match(side, identifier) for side in sides))
