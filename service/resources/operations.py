"""The operations of the contract and their parameters: listings, and those who sell them."""

from dataclasses import dataclass

from marshmallow import Schema

from mappings import AGENT, COMPANY, LISTING, OFFICE, SOLD_LISTING, TEAM
from mappings.listing import COMING_SOON, ON_MARKET_STATUSES
from service.errors import NotFound
from service.http.responses import JsonBytes
from service.operation import Operation
from service.parameters import (
    AgentReferences,
    Boolean,
    Choice,
    CompanyScope,
    CursorPaging,
    DeactivationFilter,
    NumberedPaging,
    OptionalPaging,
    ParentScope,
    PropertyTypes,
    Text,
    TimestampsOption,
    UnderscoreOption,
    UnixSecond,
    any_of,
    equals,
    equals_in_any_case,
    is_true,
    since,
    since_day,
    until,
)
from service.projection import Variant
from service.request_context import RequestContext
from service.resources.references import ACTIVITY, agent_rule, find_agents, guid_clauses, office_rule, require_unique
from service.resources.responses import CollectionResponse, FilterRule, PageResponse, RecordResponse, WalkResponse
from service.scope import COMPANY_PARAMETER, PARENT_PARAMETER
from service.search.query import Clause, at_or_after, match_any, match_none, term, terms, window_start

_MARKET_STATUS_CLAUSES: dict[str, list[Clause]] = {
    "on-market": [terms("status", ON_MARKET_STATUSES)],
    "off-market": [match_none(terms("status", (*ON_MARKET_STATUSES, COMING_SOON)))],
    "all": [],
}


class ListingsParameters(ParentScope, AgentReferences, CursorPaging, UnderscoreOption, TimestampsOption):
    """Parameters of the listings index."""

    platform_company_id = Text("The company: its key or its numeric id.", required=True)
    updated_since = UnixSecond("Listings updated at or after this second; seven days ago when absent.")
    shared_partner_data_updated_since = UnixSecond(
        "Also returns listings whose partner data changed at or after this second."
    ).guarded("partner_data")
    market_status = Choice(
        "on-market: Active, Pending and Contingent; off-market: every status but these and ComingSoon.",
        tuple(_MARKET_STATUS_CLAUSES),
    )
    property_types = PropertyTypes(
        "Numbers of the property type legend, separated by commas; all types when absent.",
        clause=any_of("property_type_id"),
    )
    only_agent_created = Boolean("True returns only agent-created (non-MLS) listings.", clause=is_true("agent_created"))
    coming_soon = Boolean("True returns only listings with the status ComingSoon, whatever market_status says.")


class ListingParameters(ParentScope, UnderscoreOption):
    """Parameters of the listing show."""

    platform_listing_id = Text("May repeat the identifier in the path.")


async def _updated_clauses(call: RequestContext) -> list[Clause]:
    """Return the clause for both update times, joined by or: updated listings, and those with changed partner data."""
    sent = call.parameters
    since = sent["updated_since"] if sent["updated_since"] is not None else window_start()
    partner_since = sent["shared_partner_data_updated_since"]
    partner = [] if partner_since is None else [at_or_after("partner_clock", partner_since)]
    return [match_any(at_or_after("clock", since), *partner)]


async def _market_status_clauses(call: RequestContext) -> list[Clause]:
    sent = call.parameters
    return [term("status", COMING_SOON)] if sent["coming_soon"] else _MARKET_STATUS_CLAUSES[sent["market_status"]]


_RULES = (
    FilterRule(
        parameters=("updated_since", "shared_partner_data_updated_since"),
        fields=("clock", "partner_clock"),
        clauses=_updated_clauses,
    ),
    FilterRule(parameters=("market_status", "coming_soon"), fields=("status",), clauses=_market_status_clauses),
    agent_rule("agents"),
    office_rule("offices"),
)


class SoldListingsParameters(ParentScope, AgentReferences, CursorPaging, UnderscoreOption, TimestampsOption):
    """Parameters of the sold listings index."""

    # With none of the three times: sold in the last seven days.
    sold_since = UnixSecond(
        "Sold on the day of this second or later. Without any of the three times: in the last seven days.",
        clause=since_day("sold", default=window_start, unless=("sold_before", "updated_since")),
    )
    sold_before = UnixSecond("Sold on the day of this second or earlier.", clause=until("sold"))
    updated_since = UnixSecond("Sold listings updated at or after this second.", clause=since("clock"))
    include_buyer_listings = Boolean("True makes agent and office parameters match the buyer's side too.")
    property_types = PropertyTypes(
        "Numbers of the property type legend, separated by commas; all types when absent.",
        clause=any_of("property_type_id"),
    )


class SoldListingParameters(CompanyScope):
    """Parameters of the sold listing show."""

    platform_listing_id = Text("May repeat the identifier in the path.")


_SOLD_RULES = (agent_rule("agents", "buyer_agents"), office_rule("offices", "buyer_offices"))


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


OPERATIONS: tuple[Operation, ...] = (
    Operation("/listings", ListingsParameters(), WalkResponse(LISTING, _RULES)),
    Operation("/listings/{platform_listing_id}", ListingParameters(), RecordResponse(LISTING)),
    Operation("/sold_listings", SoldListingsParameters(), WalkResponse(SOLD_LISTING, _SOLD_RULES)),
    Operation("/sold_listings/{platform_listing_id}", SoldListingParameters(), RecordResponse(SOLD_LISTING)),
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
