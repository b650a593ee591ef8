"""Resolve agents and offices that parameters refer to into the identifiers that listings hold."""

from typing import Any

from mappings import AGENT, OFFICE
from service.collected_faults import CollectedFaults
from service.errors import InvalidRequest
from service.request_context import RequestContext
from service.scope import COMPANY_PARAMETER, PARENT_PARAMETER
from service.search.query import Clause, Selection, by_id, match_any, page_body, spellings, term, term_in_any_case
from service.search.search_response import parse_hits

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
        found = [await _search_agents(call, each, with_source=with_source) for each in single]
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
    sent, faults = call.parameters, CollectedFaults()
    uuids = [sent["agent_uuid"]] if sent["agent_uuid"] else []
    with faults.collect():
        if (name := sent["platform_agent_id"]) is not None:
            uuids.append(await _agent(call, "platform_agent_id", platform_agent_clauses(call, name)))
    with faults.collect():
        if (name := sent["source_agent_id"]) is not None:
            _require_explicit_scope(call)
            uuids.append(await _agent(call, "source_agent_id", {"source_agent_id": term("source_agent_id", name)}))
    faults.raise_any()
    return uuids


def _require_explicit_scope(call: RequestContext) -> None:
    if not call.scope.is_explicit:
        raise InvalidRequest.of(
            "source_agent_id",
            f"is unique only within a company: send {COMPANY_PARAMETER} or {PARENT_PARAMETER} too.",
        )


async def _agent(call: RequestContext, parameter: str, identifiers: dict[str, Clause]) -> str:
    hits = await find_agents(call, identifiers, with_source=False)
    if not hits:
        raise InvalidRequest.of(parameter, f"there is no agent {call.parameters[parameter]!r}.")
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
