"""Groups of query parameters that several operations share."""

from __future__ import annotations

from marshmallow import Schema

from service.parameters.fields import Text, Truth, UnixSecond, Uuid, WholeNumber

LARGEST_PAGE = 1_000
# The usual page of everything but listings, of which one is 200 (decisions, Page size).
SMALL_PAGE = 100


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


def _page_size(usual: int) -> WholeNumber:
    return WholeNumber(f"Records a page; {usual} when absent.", least=1, most=LARGEST_PAGE, load_default=usual)


class Walked(Schema):
    """Paging by the last identifier."""

    page_size = _page_size(200)
    last_platform_listing_id = Text("The PlatformListingId of the last listing received.")


class PageNumber(Schema):
    """Which page is answered."""

    # Any page that could lie within the result window; the window itself is checked with the page size.
    page_number = WholeNumber("The page to return; the first is 1.", least=1, most=10_000_000)


class Numbered(PageNumber):
    """Paging by number."""

    page_size = _page_size(SMALL_PAGE)


class WholeOrNumbered(PageNumber):
    """Paging by number, and the whole collection where neither of the two is sent."""

    page_size = WholeNumber(
        f"Records a page; when absent {SMALL_PAGE} with page_number and all without it.", least=1, most=LARGEST_PAGE
    )


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
