"""The spelling of underscored keys (decisions, `underscore_response`)."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings import RESOURCES, Resource
from mappings.fields import Field, underscore


@pytest.mark.parametrize(
    ("name", "underscored"),
    [
        ("ListAgentUUID", "list_agent_uuid"),
        ("ListOfficeAORArea", "list_office_aor_area"),
        ("ListOfficeAOR", "list_office_aor"),
        ("ListingURL", "listing_url"),
        ("FullURL", "full_url"),
        ("VirtualOpenHouseYN", "virtual_open_house_yn"),
        ("InternetEntireListingDisplayYN", "internet_entire_listing_display_yn"),
        ("PlatformListingId", "platform_listing_id"),
        ("ListAgentPlatformOfficeID", "list_agent_platform_office_id"),
        ("Address2", "address2"),
        ("Address2Line", "address2_line"),
        ("OnMarket", "on_market"),
        ("City", "city"),
        ("FinalPage", "final_page"),
        ("attribute_1", "attribute_1"),
        ("URL", "url"),
        ("AB", "ab"),
        ("aB", "a_b"),
        ("", ""),
    ],
)
def test_capitals_become_underscores_where_a_word_begins(name: str, underscored: str) -> None:
    assert underscore(name) == underscored


@given(st.from_regex(r"[A-Za-z0-9_]{1,40}", fullmatch=True))
def test_underscoring_twice_changes_nothing_more(name: str) -> None:
    assert underscore(underscore(name)) == underscore(name)


@given(st.from_regex(r"[A-Za-z0-9_]{1,40}", fullmatch=True))
def test_underscored_names_are_lower_case_and_lose_no_letter(name: str) -> None:
    underscored = underscore(name)
    assert underscored == underscored.lower()
    assert underscored.replace("_", "") == name.lower().replace("_", "")


def families(fields: tuple[Field, ...]) -> Iterator[tuple[Field, ...]]:
    """Yield the members of a record and of every object in it."""
    yield fields
    for field in fields:
        if field.members:
            yield from families(field.members)


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)
def test_no_two_fields_of_one_object_collide_in_either_spelling(resource: Resource) -> None:
    for fields in families(resource.fields):
        assert len({field.name for field in fields}) == len(fields)
        assert len({field.underscored for field in fields}) == len(fields)
