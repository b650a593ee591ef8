"""`/sold_listings` and `/sold_listings/{platform_listing_id}`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mappings import SOLD_LISTING
from service.operation import Call, Operation
from service.parameters.fields import PropertyTypes, Text, Truth, UnixSecond
from service.parameters.groups import (
    AgentReferences,
    CompanyScope,
    ParentScope,
    Timestamped,
    Underscored,
    Walked,
)
from service.query import Clause, since, until, window_start
from service.references import agents_of, office_of
from service.resources.records import show
from service.resources.walks import feed, of_agents, of_office, of_types

if TYPE_CHECKING:
    from typing import Any

    from aiohttp import web

_DAY_SECONDS = 24 * 3600


class SoldListingsParameters(ParentScope, AgentReferences, Walked, Underscored, Timestamped):
    """Parameters of the sold listings index."""

    sold_since = UnixSecond("Sold on the day of this second or later.")
    sold_before = UnixSecond("Sold on the day of this second or earlier.")
    updated_since = UnixSecond("Sold listings updated at or after this second.")
    include_buyer_listings = Truth("True lets agent and office parameters match the buyer's side too.")
    property_types = PropertyTypes("Numbers of the property type legend, separated by commas; all types when absent.")


class SoldListingParameters(CompanyScope):
    """Parameters of the sold listing show."""

    platform_listing_id = Text("May repeat the identifier in the path.")


async def list_sold_listings(call: Call) -> web.Response:
    """Answer a page of the sold listings feed."""
    agent_fields, office_fields = _sides(call.parameters)
    clauses = [*_times(call.parameters), *of_types(call.parameters["property_types"])]
    clauses += of_agents(agent_fields, await agents_of(call))
    clauses += of_office(office_fields, await office_of(call))
    return await feed(call, SOLD_LISTING, clauses)


def _sides(sent: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if sent["include_buyer_listings"]:
        return ("agents", "buyer_agents"), ("offices", "buyer_offices")
    return ("agents",), ("offices",)


def _times(sent: dict[str, Any]) -> list[Clause]:
    """Return the time clauses; with none of the three parameters, sold in the last seven days."""
    sold_since, sold_before, updated_since = sent["sold_since"], sent["sold_before"], sent["updated_since"]
    if sold_since is None and sold_before is None and updated_since is None:
        sold_since = window_start()
    clauses = [] if updated_since is None else [since("clock", updated_since)]
    if sold_since is not None:
        # A sale is known by its day: the day that holds the second counts whole.
        clauses.append(since("sold", sold_since - sold_since % _DAY_SECONDS))
    if sold_before is not None:
        clauses.append(until("sold", sold_before))
    return clauses


async def show_sold_listing(call: Call) -> web.Response:
    """Answer one sold listing."""
    return await show(call, SOLD_LISTING, "platform_listing_id")


OPERATIONS = (
    Operation("/sold_listings", SoldListingsParameters(), list_sold_listings),
    Operation("/sold_listings/{platform_listing_id}", SoldListingParameters(), show_sold_listing),
)
