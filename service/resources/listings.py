"""`/listings` and `/listings/{platform_listing_id}`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mappings import LISTING
from mappings.legends import COMING_SOON, ON_MARKET_STATUSES
from service.operation import Call, Operation
from service.parameters.fields import Choice, PropertyTypes, Text, Truth, UnixSecond
from service.parameters.groups import AgentReferences, ParentScope, Timestamped, Underscored, Walked
from service.query import Clause, either, neither, since, term, terms, window_start
from service.references import agents_of, office_of
from service.resources.records import show
from service.resources.walks import feed, of_agents, of_office, of_types

if TYPE_CHECKING:
    from typing import Any

    from aiohttp import web

_MARKET: dict[str, list[Clause]] = {
    "on-market": [terms("status", ON_MARKET_STATUSES)],
    "off-market": [neither(terms("status", (*ON_MARKET_STATUSES, COMING_SOON)))],
    "all": [],
}


class ListingsParameters(ParentScope, AgentReferences, Walked, Underscored, Timestamped):
    """Parameters of the listings index."""

    platform_company_id = Text("The company: its key or its numeric id.", required=True)
    updated_since = UnixSecond("Listings updated at or after this second; seven days ago when absent.")
    shared_partner_data_updated_since = UnixSecond(
        "Adds listings whose partner data changed at or after this second."
    ).guarded("partner_data")
    market_status = Choice("Which listings by market status.", tuple(_MARKET))
    property_types = PropertyTypes("Numbers of the property type legend, separated by commas; all types when absent.")
    only_agent_created = Truth("True answers agent-created listings only.")
    coming_soon = Truth("True answers listings of status ComingSoon only.")


class ListingParameters(ParentScope, Underscored):
    """Parameters of the listing show."""

    platform_listing_id = Text("May repeat the identifier in the path.")


async def list_listings(call: Call) -> web.Response:
    """Answer a page of the listings feed."""
    clauses = [*_updated(call.parameters), *_market(call.parameters), *of_types(call.parameters["property_types"])]
    if call.parameters["only_agent_created"]:
        clauses.append(term("agent_created", value=True))
    clauses += of_agents(("agents",), await agents_of(call))
    clauses += of_office(("offices",), await office_of(call))
    return await feed(call, LISTING, clauses)


def _updated(sent: dict[str, Any]) -> list[Clause]:
    begins = sent["updated_since"] if sent["updated_since"] is not None else window_start()
    partner_begins = sent["shared_partner_data_updated_since"]
    partner = [] if partner_begins is None else [since("partner_clock", partner_begins)]
    return [either(since("clock", begins), *partner)]


def _market(sent: dict[str, Any]) -> list[Clause]:
    return [term("status", COMING_SOON)] if sent["coming_soon"] else _MARKET[sent["market_status"]]


async def show_listing(call: Call) -> web.Response:
    """Answer one listing."""
    return await show(call, LISTING, "platform_listing_id")


OPERATIONS = (
    Operation("/listings", ListingsParameters(), list_listings),
    Operation("/listings/{platform_listing_id}", ListingParameters(), show_listing),
)
