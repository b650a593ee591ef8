"""`/sold_listings` and `/sold_listings/{platform_listing_id}`."""

from mappings import SOLD_LISTING
from service.operation import Operation
from service.parameters.groups import (
    AgentReferences,
    CompanyScope,
    CursorPaging,
    ParentScope,
    TimestampsOption,
    UnderscoreOption,
)
from service.parameters.types import Boolean, PropertyTypes, Text, UnixSecond, any_of, since, since_day, until
from service.resources.references import agent_rule, office_rule
from service.resources.responses import RecordResponse, WalkResponse
from service.search.query import window_start


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


_RULES = (agent_rule("agents", "buyer_agents"), office_rule("offices", "buyer_offices"))
OPERATIONS = (
    Operation("/sold_listings", SoldListingsParameters(), WalkResponse(SOLD_LISTING, _RULES)),
    Operation("/sold_listings/{platform_listing_id}", SoldListingParameters(), RecordResponse(SOLD_LISTING)),
)
