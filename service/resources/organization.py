"""`/agents`, `/offices`, `/teams` and `/companies`, with their shows."""

from dataclasses import dataclass

from marshmallow import Schema

from mappings import AGENT, COMPANY, OFFICE, TEAM
from service.errors import NotFound
from service.http.responses import JsonBytes
from service.operation import Operation
from service.parameters.types import (
    Boolean,
    CompanyScope,
    DeactivationFilter,
    NumberedPaging,
    OptionalPaging,
    ParentScope,
    Text,
    TimestampsOption,
    UnixSecond,
    equals,
    equals_in_any_case,
    is_true,
    since,
)
from service.projection import Variant
from service.request_context import RequestContext
from service.resources.references import ACTIVITY, find_agents, guid_clauses, office_rule, require_unique
from service.resources.responses import CollectionResponse, PageResponse, RecordResponse
from service.scope import COMPANY_PARAMETER, PARENT_PARAMETER
from service.search.query import window_start

# Who is asked for by one of them may have been updated at any time.
_FOUND_BY = ("name", "first_name", "last_name", "email", "license", "mls_agent_id")


class AgentsParameters(ParentScope, NumberedPaging, DeactivationFilter, TimestampsOption):
    """Parameters of the agents index."""

    platform_office_id = Text("Agents of this office.")
    updated_since = UnixSecond(
        "Agents updated at or after this second; seven days ago when absent.",
        clause=since("clock", default=window_start, unless=("deactivated", *_FOUND_BY)),
    )
    name = Text("Agents of this full name, in any case.", clause=equals_in_any_case("name"))
    first_name = Text("Agents of this first name, in any case.", clause=equals_in_any_case("first_name"))
    last_name = Text("Agents of this last name, in any case.", clause=equals_in_any_case("last_name"))
    email = Text("Agents of this primary_email_address, in any case.", clause=equals_in_any_case("email"))
    license = Text("Agents of this license.", clause=equals("license"))
    mls_agent_id = Text("Agents of this mls_agent_id.", clause=equals("mls_id"))
    has_company_programs = Boolean(
        "True returns only agents with company programs.", clause=is_true("has_company_programs")
    )
    include_access_level = Boolean("True adds access_level and view_level.")
    include_company_programs = Boolean("True adds company_programs.")
    include_partners = Boolean("True adds partners, the affiliate data.")
    include_website = Boolean("True adds website_base_url.")
    include_reviews = Boolean("True adds user_reviews.")
    include_bio = Boolean("True adds bio.")
    envelope = Boolean("True returns {page_number, total_pages, agents} instead of an array.")


class AgentParameters(ParentScope):
    """Parameters of the agent show."""

    include_access_level = Boolean("True adds access_level and view_level.")
    include_gci_goals = Boolean("True adds gci_goal, buyer_commission_rate and seller_commission_rate.")
    include_partners = Boolean("True adds partners, the affiliate data.")
    include_reviews = Boolean("True adds user_reviews.")


_SOURCE_ID_ADVICE = (
    f"If this is a source_agent_id, send {COMPANY_PARAMETER} or {PARENT_PARAMETER} too: it is unique only within a "
    "company."
)


@dataclass(frozen=True)
class AgentResponse(RecordResponse):
    """One agent, by `agent_uuid`, `platform_agent_id` or, within a company or parent, `source_agent_id`."""

    async def find(self, call: RequestContext, identifier: str, variant: Variant) -> JsonBytes | None:
        """Return the agent by the first kind of identifier that matches.

        Raises InvalidRequest for several matches, and NotFound if none matches and a scope could help.
        """
        hits = await find_agents(call, guid_clauses(call, identifier), with_source=True)
        if not hits and not call.scope.is_explicit:
            call.note_absent(self.resource, identifier)
            raise NotFound(f"There is no agent {identifier!r}. {_SOURCE_ID_ADVICE}")
        if not hits:
            return None
        require_unique("guid", hits)
        if call.sent is not None:
            call.sent.names(self.resource, (hits[0]["_id"],))
        return variant.render(hits[0]["_source"]["record"])


class OfficesParameters(ParentScope, NumberedPaging, DeactivationFilter, TimestampsOption):
    """Parameters of the offices index."""

    name = Text("Offices of this name, in any case.", clause=equals_in_any_case("name"))
    email = Text("Offices of this email, in any case.", clause=equals_in_any_case("email"))


class OfficeParameters(ParentScope):
    """Parameters of the office show."""

    platform_office_id = Text("May repeat the identifier in the path.")


class TeamsParameters(CompanyScope, OptionalPaging):
    """Parameters of the teams index."""


class TeamParameters(CompanyScope):
    """Parameters of the team show."""


class CompaniesParameters(OptionalPaging):
    """Parameters of the companies index."""


class CompanyParameters(Schema):
    """The company show has no query parameters."""


OPERATIONS = (
    Operation("/agents", AgentsParameters(), PageResponse(AGENT, (ACTIVITY, office_rule("office")))),
    Operation("/agents/{guid}", AgentParameters(), AgentResponse(AGENT)),
    Operation("/offices", OfficesParameters(), PageResponse(OFFICE, rules=(ACTIVITY,), is_enclosed=True)),
    Operation("/offices/{platform_office_id}", OfficeParameters(), RecordResponse(OFFICE)),
    Operation("/teams", TeamsParameters(), CollectionResponse(TEAM)),
    Operation("/teams/{platform_team_id}", TeamParameters(), RecordResponse(TEAM)),
    Operation("/companies", CompaniesParameters(), CollectionResponse(COMPANY)),
    Operation(
        "/companies/{platform_company_id}", CompanyParameters(), RecordResponse(COMPANY, alternative="numeric_id")
    ),
)
