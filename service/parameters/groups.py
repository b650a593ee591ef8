"""Groups of query parameters that several operations share."""

from __future__ import annotations

from marshmallow import Schema

from service.parameters.fields import Text, Truth, UnixSecond, Uuid, WholeNumber

LARGEST_PAGE = 1_000


class CompanyScope(Schema):
    """One company."""

    platform_company_id = Text("A company: its key or its numeric id.")


class ParentScope(CompanyScope):
    """One company, or the companies under a parent."""

    parent_company_id = Text("A parent company: its key or its numeric id. Alone: all companies under it.")


class Underscored(Schema):
    """The spelling of the answer's keys."""

    underscore_response = Truth("True answers with underscored keys.")


class Timestamped(Schema):
    """The short form of an index."""

    timestamps_only = Truth("True answers identifiers and times of change only.")


class PageSize(Schema):
    """How many records a page holds."""

    page_size = WholeNumber("Records a page.", least=1, most=LARGEST_PAGE)


class Walked(PageSize):
    """Paging by the last identifier."""

    last_platform_listing_id = Text("The PlatformListingId of the last listing received.")


class Numbered(PageSize):
    """Paging by number."""

    # Any page that could lie within the result window; the window itself is checked with the page size.
    page_number = WholeNumber("The page to return; the first is 1.", least=1, most=10_000_000)


class AgentReferences(Schema):
    """Restriction to the listings of an agent or of an office."""

    agent_uuid = Uuid("Listings of this agent.")
    platform_agent_id = Text("Listings of this agent; `[platform_company_id]:[internal_agent_id]` works too.")
    source_agent_id = Text("Listings of the agent with this id in the company's own system.")
    platform_office_id = Text("Listings of this office.")


class Deactivation(Schema):
    """The deactivated records of an index."""

    deactivated = Truth("True answers the records deactivated after deactivated_since.")
    deactivated_since = UnixSecond("With deactivated: the start of the window; seven days ago when absent.")
