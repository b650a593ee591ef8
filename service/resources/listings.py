"""`/listings` and `/sold_listings`, with their shows."""

from mappings import LISTING, SOLD_LISTING
from mappings.listing import COMING_SOON, ON_MARKET_STATUSES
from service.operation import Operation
from service.parameters.types import (
    AgentReferences,
    Boolean,
    Choice,
    CompanyScope,
    CursorPaging,
    ParentScope,
    PropertyTypes,
    Text,
    TimestampsOption,
    UnderscoreOption,
    UnixSecond,
    any_of,
    is_true,
    since,
    since_day,
    until,
)
from service.request_context import RequestContext
from service.resources.references import agent_rule, office_rule
from service.resources.responses import FilterRule, RecordResponse, WalkResponse
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
OPERATIONS = (
    Operation("/listings", ListingsParameters(), WalkResponse(LISTING, _RULES)),
    Operation("/listings/{platform_listing_id}", ListingParameters(), RecordResponse(LISTING)),
    Operation("/sold_listings", SoldListingsParameters(), WalkResponse(SOLD_LISTING, _SOLD_RULES)),
    Operation("/sold_listings/{platform_listing_id}", SoldListingParameters(), RecordResponse(SOLD_LISTING)),
)
