"""Agents and offices that parameters refer to, as identifiers that listings hold; and the filter by `deactivated`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mappings import AGENT, OFFICE
from service.errors import InvalidRequest, ParameterFault
from service.request_context import RequestContext
from service.resources.responses import FilterRule
from service.scope import COMPANY_PARAMETER, PARENT_PARAMETER
from service.search.query import (
    Clause,
    Selection,
    at_or_after,
    by_id,
    lacks_field,
    match_any,
    page_body,
    spellings,
    term,
    term_in_any_case,
    term_in_any_spelling,
    window_start,
)
from service.search.responses import parse_hits

# Enough to detect that an identifier is not unique.
_MATCHES = 10


def guid_clauses(call: RequestContext, guid: str) -> dict[str, Clause]:
    """Return the clauses by which `guid` may match an agent, in order of precedence (decisions, `{guid}`)."""
    clauses = {"agent_uuid": by_id(guid)} | platform_agent_clauses(call, guid)
    return clauses | ({"source_agent_id": term("source_agent_id", guid)} if call.scope.is_explicit else {})


def platform_agent_clauses(call: RequestContext, platform_agent_id: str) -> dict[str, Clause]:
    """Return the clauses for a `platform_agent_id`, which may be `[platform_company_id]:[internal_agent_id]`.

    Mail addresses and UUIDs also match in another case, after an exact match.
    """
    clauses = {"platform_agent_id": term("platform_agent_id", platform_agent_id)}
    if "@" in platform_agent_id or len(spellings(platform_agent_id)) > 1:
        clauses["any_case"] = term_in_any_case("platform_agent_id", platform_agent_id)
    company, colon, internal = platform_agent_id.partition(":")
    key = call.directory.key(company)
    if colon and key is not None:
        clauses["internal"] = {"bool": {"filter": [term("company", key), term("source_agent_id", internal)]}}
    return clauses


async def find_agents(
    call: RequestContext, identifiers: dict[str, Clause], *, with_source: bool
) -> list[dict[str, Any]]:
    """Return the hits of the first identifier that matches any agent in the scope, including deactivated ones."""
    hits = await _search_agents(call, identifiers, with_source=with_source)
    if len(hits) == _MATCHES:
        # The matches of a later identifier may have taken the places of an earlier one's.
        single = [{name: clause} for name, clause in identifiers.items()]
        found = [await _search_agents(call, reference, with_source=with_source) for reference in single]
    else:
        found = [[hit for hit in hits if name in hit["matched_queries"]] for name in identifiers]
    return next(filter(None, found), [])


async def _search_agents(
    call: RequestContext, identifiers: dict[str, Clause], *, with_source: bool
) -> list[dict[str, Any]]:
    named: list[Clause] = [{"bool": {"filter": [clause], "_name": name}} for name, clause in identifiers.items()]
    body = page_body(Selection(AGENT, call.scope, (match_any(*named),)), _MATCHES)
    return parse_hits(await call.search(AGENT, body | ({} if with_source else {"_source": False})))


async def referenced_agents(call: RequestContext) -> list[str]:
    """Return the `agent_uuid` of each agent that the parameters refer to; listings must be of all of them."""
    sent = call.parameters
    uuids: list[str] = [sent["agent_uuid"]] if sent["agent_uuid"] else []
    faults: list[ParameterFault] = []
    for parameter in ("platform_agent_id", "source_agent_id"):
        if (name := sent[parameter]) is not None:
            try:
                uuids.append(await _agent(call, parameter, name))
            except InvalidRequest as error:
                faults += error.faults
    if faults:
        raise InvalidRequest(*faults)
    return uuids


async def _agent(call: RequestContext, parameter: str, name: str) -> str:
    if parameter == "platform_agent_id":
        identifiers = platform_agent_clauses(call, name)
    elif call.scope.is_explicit:
        identifiers = {parameter: term(parameter, name)}
    else:
        raise InvalidRequest.of(
            parameter, f"is unique only within a company: send {COMPANY_PARAMETER} or {PARENT_PARAMETER} too."
        )
    hits = await find_agents(call, identifiers, with_source=False)
    if not hits:
        raise InvalidRequest.of(parameter, f"there is no agent {name!r}.")
    require_unique(parameter, hits)
    return str(hits[0]["_id"])


def require_unique(parameter: str, hits: list[dict[str, Any]]) -> None:
    """Raise InvalidRequest if several agents share an identifier, as with `source_agent_id` under a parent company."""
    if len(hits) > 1:
        raise InvalidRequest.of(
            parameter, f"several agents have this identifier; choose the company with {COMPANY_PARAMETER}."
        )


async def referenced_office(call: RequestContext) -> str | None:
    """Return the id of the office that `platform_office_id` refers to; raise InvalidRequest if it does not exist."""
    office: str | None = call.parameters["platform_office_id"]
    if office is None:
        return None
    body = page_body(Selection(OFFICE, call.scope, (by_id(office),)), 1) | {"_source": False}
    hits = parse_hits(await call.search(OFFICE, body))
    if not hits:
        raise InvalidRequest.of("platform_office_id", f"there is no office {office!r}.")
    return str(hits[0]["_id"])


_BUYER_SIDE = "include_buyer_listings"
_AGENT_PARAMETERS = ("agent_uuid", "platform_agent_id", "source_agent_id")


def agent_rule(field: str, buyer_field: str = "") -> FilterRule:
    """Return the rule that selects records of every agent that the parameters refer to.

    `field` holds the agents of a record; `buyer_field` those of its buyer, searched with `include_buyer_listings`.
    """
    parameters, fields = _declared(_AGENT_PARAMETERS, field, buyer_field)
    clauses = partial(_of_agents, field, buyer_field)
    return FilterRule(parameters=parameters, fields=fields, clauses=clauses, always=False)


def office_rule(field: str, buyer_field: str = "") -> FilterRule:
    """Return the rule that selects records of the office in `platform_office_id`; fields as for agents."""
    parameters, fields = _declared(("platform_office_id",), field, buyer_field)
    clauses = partial(_of_office, field, buyer_field)
    return FilterRule(parameters=parameters, fields=fields, clauses=clauses, always=False)


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


def deactivation_clause(sent: Mapping[str, Any]) -> Clause:
    """Return the clause for `deactivated` and `deactivated_since`."""
    if not sent["deactivated"]:
        return lacks_field("deactivated")
    since = sent["deactivated_since"]
    return at_or_after("deactivated", window_start() if since is None else since)


async def _clauses(call: RequestContext) -> list[Clause]:
    return [deactivation_clause(call.parameters)]


ACTIVITY = FilterRule(parameters=("deactivated", "deactivated_since"), fields=("deactivated",), clauses=_clauses)
