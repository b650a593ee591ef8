"""From the agents and offices that parameters refer to, to what their listings carry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mappings import AGENT, OFFICE
from service.answer import hits
from service.errors import InvalidRequest
from service.query import Clause, Selection, either, identified, page_body, term
from service.scope import COMPANY, PARENT

if TYPE_CHECKING:
    from service.operation import Call

# Enough to see that an identifier is not unique.
_MATCHES = 10


def agent_identifiers(call: Call, guid: str) -> dict[str, Clause]:
    """Return the clauses by which `guid` may mean an agent, in the order in which they count (decisions, `{guid}`)."""
    clauses = {"agent_uuid": identified(guid.lower()), "platform_agent_id": term("platform_agent_id", guid)}
    return clauses | ({"source_agent_id": term("source_agent_id", guid)} if call.scope.named else {})


def platform_identifiers(call: Call, platform_agent_id: str) -> dict[str, Clause]:
    """Return the clauses for a `platform_agent_id`, which may be `[platform_company_id]:[internal_agent_id]`."""
    clauses = {"platform_agent_id": term("platform_agent_id", platform_agent_id)}
    company, colon, internal = platform_agent_id.partition(":")
    key = call.directory.key(company)
    if colon and key is not None:
        clauses["internal"] = {"bool": {"filter": [term("company", key), term("source_agent_id", internal)]}}
    return clauses


async def find_agents(call: Call, identifiers: dict[str, Clause], *, source: bool) -> list[dict[str, Any]]:
    """Return the hits of the first identifier that matches any agent of the scope, deactivated ones included."""
    named: list[Clause] = [{"bool": {"filter": [clause], "_name": name}} for name, clause in identifiers.items()]
    body = page_body(Selection(AGENT, call.scope, (either(*named),)), _MATCHES) | ({} if source else {"_source": False})
    found = hits(await call.search(AGENT, body))
    for name in identifiers:
        matching = [hit for hit in found if name in hit["matched_queries"]]
        if matching:
            return matching
    return []


async def agents_of(call: Call) -> list[str]:
    """Return the `agent_uuid` of each agent that the parameters refer to; listings must be of all of them."""
    sent = call.parameters
    uuids = [sent["agent_uuid"]] if sent["agent_uuid"] else []
    if sent["platform_agent_id"]:
        uuids.append(await _agent(call, "platform_agent_id", platform_identifiers(call, sent["platform_agent_id"])))
    if sent["source_agent_id"]:
        if not call.scope.named:
            raise InvalidRequest.of("source_agent_id", f"is known within a company only: send {COMPANY} or {PARENT}.")
        clause = term("source_agent_id", sent["source_agent_id"])
        uuids.append(await _agent(call, "source_agent_id", {"source_agent_id": clause}))
    return uuids


async def _agent(call: Call, parameter: str, identifiers: dict[str, Clause]) -> str:
    found = await find_agents(call, identifiers, source=False)
    if not found:
        raise InvalidRequest.of(parameter, f"there is no agent {call.parameters[parameter]!r}.")
    refuse_ambiguous(parameter, found)
    return str(found[0]["_id"])


def refuse_ambiguous(parameter: str, found: list[dict[str, Any]]) -> None:
    """Refuse an identifier that several agents share, as `source_agent_id` may under a parent company."""
    if len(found) > 1:
        raise InvalidRequest.of(parameter, f"several agents have this identifier; name the company with {COMPANY}.")


async def office_of(call: Call) -> str | None:
    """Return the office that `platform_office_id` refers to; refuse one that is not there."""
    office: str | None = call.parameters["platform_office_id"]
    if office is None:
        return None
    body = page_body(Selection(OFFICE, call.scope, (identified(office),)), 1) | {"_source": False}
    if not hits(await call.search(OFFICE, body)):
        raise InvalidRequest.of("platform_office_id", f"there is no office {office!r}.")
    return office
