"""Records with `timestamps_only`, read from search responses."""

from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings import AGENT, LISTING, OFFICE, SOLD_LISTING, Resource
from mappings.fields import underscore
from service.projection import doc_values, encode_timestamps
from tests.service.stand_in import search_response

TEXTS = st.sampled_from(['"', "\\", '"fields":{"id":["x"]}', "\x00", "é😀"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=5
)
CLOCKS = st.integers(0, 2**53)


def answer(found: list[dict[str, Any]]) -> bytes:
    """Return a search response without records."""
    hits = [{"_index": "x-v0001", "_score": None, "fields": fields, "sort": [1, "a:1"]} for fields in found]
    return search_response([orjson.dumps(one) for one in hits])


@st.composite
def doc_value_lists(draw: st.DrawFn, resource: Resource) -> dict[str, list[Any]]:
    """Return the doc values of one hit, in any order; only the clock is always there."""
    names = draw(st.lists(st.sampled_from(["modified", "stranger", *resource.timestamps.values()]), unique=True))
    values = {name: [draw(TEXTS)] for name in names} | {"clock": [draw(CLOCKS)]}
    return dict(draw(st.permutations([*values.items()])))


def plainly(resource: Resource, values: dict[str, list[Any]], *, underscored: bool) -> dict[str, Any]:
    """Return the record of one hit: the reference implementation."""
    names = {name: underscore(name) if underscored else name for name in resource.timestamps}
    record = {names[name]: values.get(source, [None])[0] for name, source in resource.timestamps.items()}
    clocks = {"last_updated": values["clock"][0] // 1000, "modification_timestamp": values.get("modified", [None])[0]}
    return record | clocks


@pytest.mark.parametrize("resource", [LISTING, SOLD_LISTING, AGENT, OFFICE], ids=lambda resource: resource.alias)
@given(data=st.data(), underscored=st.booleans())
def test_briefs_are_what_the_plain_implementation_makes(
    resource: Resource, data: st.DataObject, underscored: bool
) -> None:
    found = data.draw(st.lists(doc_value_lists(resource), max_size=3))
    made = encode_timestamps(resource, doc_values(resource, answer(found)), underscored=underscored)
    expected = [plainly(resource, values, underscored=underscored) for values in found]
    assert [[*orjson.loads(one).items()] for one in made] == [[*one.items()] for one in expected]


def test_doc_values_give_the_identifier_to_continue_after() -> None:
    (values,) = doc_values(LISTING, answer([{"clock": [1], "id": ["L 1"]}]))
    assert values.id == ("L 1",)


def test_of_several_values_the_first_is_taken() -> None:
    found = [{"clock": [1_000], "id": ["a"], "listing_id": ["M1", "M2"]}]
    (made,) = encode_timestamps(LISTING, doc_values(LISTING, answer(found)), underscored=True)
    assert orjson.loads(made)["listing_id"] == "M1"


def test_a_response_without_clocks_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="clock"):
        doc_values(LISTING, answer([{"id": ["a"]}]))


VALUES = {"id": ["a1"], "listing_id": ["M1"], "platform_agent_id": ["p1"], "clock": [1_700_000_000_999]}


@pytest.mark.parametrize(
    ("resource", "underscored", "identifiers"),
    [
        (LISTING, False, {"PlatformListingId": "a1", "ListingID": "M1"}),
        (LISTING, True, {"platform_listing_id": "a1", "listing_id": "M1"}),
        (SOLD_LISTING, False, {"PlatformListingId": "a1", "ListingID": "M1"}),
        (AGENT, False, {"platform_agent_id": "p1", "agent_uuid": "a1"}),
        (OFFICE, False, {"platform_office_id": "a1"}),
    ],
)
def test_brief_records_have_identifiers_and_the_two_clocks(
    resource: Resource, underscored: bool, identifiers: dict[str, str]
) -> None:
    found = doc_values(resource, answer([VALUES | {"modified": ["2026-01-01T00:00:00Z"]}]))
    (record,) = encode_timestamps(resource, found, underscored=underscored)
    clocks = {"last_updated": 1_700_000_000, "modification_timestamp": "2026-01-01T00:00:00Z"}
    assert orjson.loads(record) == identifiers | clocks


def test_a_brief_record_without_a_value_says_null() -> None:
    (record,) = encode_timestamps(
        LISTING, doc_values(LISTING, answer([{"id": ["a1"], "clock": [0]}])), underscored=False
    )
    expected = {"PlatformListingId": "a1", "ListingID": None, "last_updated": 0, "modification_timestamp": None}
    assert orjson.loads(record) == expected
