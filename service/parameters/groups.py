"""Query parameters that several operations share."""

from marshmallow import Schema

from service.parameters.types import Boolean, Cursor, QualifiedText, Text, UnixSecond, Uuid, WholeNumber

MAX_PAGE_SIZE = 1_000
# The default except for listings, whose pages have 200 records (decisions, Page size).
DEFAULT_PAGE_SIZE = 100


class CompanyScope(Schema):
    """One company."""

    platform_company_id = Text("A company: its key or its numeric id.")


class ParentScope(CompanyScope):
    """One company, or the companies under a parent."""

    parent_company_id = Text("A parent company: its key or its numeric id. Alone: all companies under it.")


class UnderscoreOption(Schema):
    """The spelling of response keys."""

    underscore_response = Boolean("True returns underscored keys, such as list_agent_uuid for ListAgentUUID.")


class TimestampsOption(Schema):
    """The brief form of a collection."""

    timestamps_only = Boolean("True returns only identifiers and times of change.")


def _page_size(default: int) -> WholeNumber:
    return WholeNumber(
        f"Records per page; {default} when absent.", minimum=1, maximum=MAX_PAGE_SIZE, load_default=default
    )


class CursorPaging(Schema):
    """Paging with the last identifier as the cursor."""

    page_size = _page_size(200)
    last_platform_listing_id = Cursor("The PlatformListingId of the last listing received.")


class PageNumber(Schema):
    """The page number."""

    # A generous bound: the result window is checked together with the page size.
    page_number = WholeNumber("The page to return; the first is 1.", minimum=1, maximum=10_000_000)


class NumberedPaging(PageNumber):
    """Paging by number."""

    page_size = _page_size(DEFAULT_PAGE_SIZE)


class OptionalPaging(PageNumber):
    """Paging by number; the whole collection if neither parameter is sent."""

    page_size = WholeNumber(
        f"Records per page; when absent {DEFAULT_PAGE_SIZE} with page_number, and all records without it.",
        minimum=1,
        maximum=MAX_PAGE_SIZE,
    )


class AgentReferences(Schema):
    """Filters by agent or office."""

    agent_uuid = Uuid("Listings of this agent.")
    platform_agent_id = QualifiedText(
        "Listings of this agent; `[platform_company_id]:[internal_agent_id]` is accepted too."
    )
    source_agent_id = Text("Listings of the agent with this id in the company's own system.")
    platform_office_id = Text("Listings of this office.")


class DeactivationFilter(Schema):
    """The filter for deactivated records."""

    deactivated = Boolean("True returns only deactivated records, which are excluded by default.")
    deactivated_since = UnixSecond(
        "With deactivated: records deactivated at or after this second; seven days ago when absent."
    )
