"""`/agents` and `/agents/{guid}`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mappings import AGENT
from mappings.fields import View
from service.errors import NotFound
from service.operation import Call, Operation
from service.paging import numbered_page
from service.parameters.fields import Text, Truth, UnixSecond
from service.parameters.groups import Deactivation, Numbered, ParentScope, Timestamped
from service.query import Clause, Selection, since, term, window_start
from service.references import agent_identifiers, find_agents, office_of, refuse_ambiguous
from service.resources.activity import activity
from service.resources.walks import next_watermark
from service.responses import array, json_answer

if TYPE_CHECKING:
    from aiohttp import web


class AgentsParameters(ParentScope, Numbered, Deactivation, Timestamped):
    """Parameters of the agents index."""

    platform_office_id = Text("Agents of this office.")
    updated_since = UnixSecond("Agents updated at or after this second; seven days ago when absent.")
    has_company_programs = Truth("True answers agents with company programs only.")
    include_access_level = Truth("True adds access_level and view_level.")
    include_company_programs = Truth("True adds company_programs.")
    include_partners = Truth("True adds partners, the affiliate data.")
    include_website = Truth("True adds website_base_url.")
    include_reviews = Truth("True adds user_reviews.")
    include_bio = Truth("True adds bio.")
    envelope = Truth("True answers {page_number, total_pages, agents} instead of an array.")


class AgentParameters(ParentScope):
    """Parameters of the agent show."""

    include_access_level = Truth("True adds access_level and view_level.")
    include_gci_goals = Truth("True adds gci_goal, buyer_commission_rate and seller_commission_rate.")
    include_partners = Truth("True adds partners, the affiliate data.")
    include_reviews = Truth("True adds user_reviews.")


async def list_agents(call: Call) -> web.Response:
    """Answer a page of agents; paging is in headers, the body is the array itself."""
    clauses = [activity(call.parameters), *_updated(call), *await _restrictions(call)]
    watermark = await next_watermark(call, AGENT)
    selection = Selection(AGENT, call.scope, tuple(clauses))
    page = await numbered_page(call, selection, call.variant(AGENT, View.INDEX), call.parameters["page_size"])
    body = page.enclosed("agents") if call.parameters["envelope"] else array(page.records)
    return json_answer(body, {**page.headers(call), **watermark})


def _updated(call: Call) -> list[Clause]:
    begins = call.parameters["updated_since"]
    if begins is None and call.parameters["deactivated"]:
        return []
    return [since("clock", window_start() if begins is None else begins)]


async def _restrictions(call: Call) -> list[Clause]:
    office = await office_of(call)
    clauses = [] if office is None else [term("office", office)]
    return [*clauses, term("has_company_programs", value=True)] if call.parameters["has_company_programs"] else clauses


async def show_agent(call: Call) -> web.Response:
    """Answer one agent, by `agent_uuid`, `platform_agent_id` or, within a company or parent, `source_agent_id`."""
    guid = call.path["guid"]
    found = await find_agents(call, agent_identifiers(call, guid), source=True)
    if not found:
        raise NotFound(f"There is no agent {guid!r}.")
    refuse_ambiguous("guid", found)
    return json_answer([call.variant(AGENT, View.SHOW).render(found[0]["_source"]["record"])])


OPERATIONS = (
    Operation("/agents", AgentsParameters(), list_agents),
    Operation("/agents/{guid}", AgentParameters(), show_agent),
)
