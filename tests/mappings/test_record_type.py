"""Compiled record types: what they complete, and what they refuse with the path of the fault."""

from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings import AGENT, COMPANY, LISTING, OFFICE, RESOURCES, SOLD_LISTING, Resource
from mappings.record_schema import record_type


def read(resource: Resource, record: dict[str, Any]) -> Any:
    return msgspec.json.decode(orjson.dumps(record), type=record_type(resource))


def refusal(resource: Resource, record: dict[str, Any]) -> str:
    """Return the text of the refusal that a record must meet."""
    with pytest.raises(msgspec.ValidationError) as caught:
        read(resource, record)
    return str(caught.value)


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)
def test_a_record_of_an_identifier_alone_is_completed_in_stored_order(resource: Resource) -> None:
    encoded = msgspec.json.encode(read(resource, {resource.identifier: "a1"}))
    assert list(orjson.loads(encoded).items()) == [
        (field.name, "a1" if field.name == resource.identifier else None) for field in resource.stored
    ]


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)
def test_the_identifier_is_required(resource: Resource) -> None:
    assert resource.identifier in refusal(resource, {})
    assert resource.identifier in refusal(resource, {resource.identifier: None})


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)
def test_an_unknown_member_is_refused_by_name(resource: Resource) -> None:
    assert "Unheard" in refusal(resource, {resource.identifier: "a1", "Unheard": 1})


def test_an_unknown_member_of_an_object_is_refused_with_its_path() -> None:
    refused = refusal(LISTING, {"PlatformListingId": "L1", "ListingImages": [{}, {"Unheard": 1}]})
    assert "Unheard" in refused
    assert "$.ListingImages[1]" in refused


@pytest.mark.parametrize(
    ("resource", "name", "value"),
    [
        (LISTING, "ListPrice", "350000"),
        (LISTING, "ListPrice", True),
        (LISTING, "PoolYN", 1),
        (LISTING, "PoolYN", "true"),
        (LISTING, "City", 7),
        (LISTING, "City", ["Seattle"]),
        (LISTING, "Latitude", 47.6),
        (LISTING, "SharedPartnerData", []),
        (LISTING, "PropertyFeatures", {}),
        (LISTING, "OpenHouse", [None]),
        (AGENT, "last_updated", 1.5),
        (AGENT, "gci_goal", "1"),
        (AGENT, "teams", {}),
        (AGENT, "email_addresses", "a@b.example"),
        (OFFICE, "company_programs", [1]),
        (OFFICE, "company_programs", "gold"),
        (COMPANY, "public_partner_attrs", {"is_nrt": "yes"}),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_path(resource: Resource, name: str, value: object) -> None:
    assert f"$.{name}" in refusal(resource, {resource.identifier: "a1", name: value})


@pytest.mark.parametrize("name", ["ListingContractDate", "CreatedDate", "ImagesLastModified"])
@pytest.mark.parametrize("day", ["2026-02-30", "2026-13-01", "20260101", "01/02/2026", "2026-01-01T00:00:00Z", "", 0])
def test_a_date_that_no_calendar_has_is_refused(name: str, day: object) -> None:
    assert f"$.{name}" in refusal(LISTING, {"PlatformListingId": "L1", name: day})


def test_a_date_round_trips() -> None:
    encoded = msgspec.json.encode(read(SOLD_LISTING, {"PlatformListingId": "L1", "SoldDate": "2024-02-29"}))
    assert orjson.loads(encoded)["SoldDate"] == "2024-02-29"


@pytest.mark.parametrize(
    "moment",
    ["2026-11-20T10:00:00Z", "2026-11-20T10:00:00.123Z", "2026-11-20T10:00:00.123456789Z", "2026-11-20T10:00:00-08:00"],
)
def test_a_moment_with_an_offset_is_kept_to_the_letter(moment: str) -> None:
    assert read(LISTING, {"PlatformListingId": "L1", "ModificationTimestamp": moment}).ModificationTimestamp == moment


@pytest.mark.parametrize(
    "moment",
    [
        "2026-11-20T10:00:00",
        "2026-11-20",
        "2026-11-20 10:00:00Z",
        "2026-11-20T10:00Z",
        "2026-11-20T10:00:00+0800",
        "2026-11-20T10:00:00.Z",
        " 2026-11-20T10:00:00Z",
        "2026-11-20T10:00:00Z\n",
        "٢٠٢٦-11-20T10:00:00Z",
        1794650100,
    ],
)
def test_a_moment_in_another_form_is_refused(moment: object) -> None:
    refused = refusal(LISTING, {"PlatformListingId": "L1", "ModificationTimestamp": moment})
    assert "$.ModificationTimestamp" in refused


@pytest.mark.parametrize("identifier", ["L1", "a:b", "a;b", "x" * 128, "Ünïcode", "日本", "%2F", "-", "a.b@c.example"])
def test_an_identifier_that_survives_in_a_path_is_taken(identifier: str) -> None:
    assert read(LISTING, {"PlatformListingId": identifier}).PlatformListingId == identifier


@pytest.mark.parametrize(
    "identifier", ["", " ", "a b", "a/b", "a\tb", "a\x00", "a\x7f", "x" * 129, "L1\n", "\nL1", "L1\r\n", 7]
)
def test_an_identifier_that_would_not_survive_is_refused(identifier: object) -> None:
    assert "$.PlatformListingId" in refusal(LISTING, {"PlatformListingId": identifier})


def test_a_number_with_a_fraction_is_let_in_for_the_indexer_to_round() -> None:
    assert read(LISTING, {"PlatformListingId": "L1", "LotSizeAcres": 0.25}).LotSizeAcres == 0.25


@pytest.mark.parametrize("value", [{}, None, "text", 7, 1.5, [], {"deep": [{"er": None}]}])
def test_an_untyped_member_takes_anything(value: object) -> None:
    assert read(LISTING, {"PlatformListingId": "L1", "AssociationFee": value}).AssociationFee == value


@pytest.mark.parametrize("name", ["VirtualOpenHouseURL", "Comment"])
def test_the_untyped_members_of_an_open_house_take_the_empty_object_that_the_contract_shows(name: str) -> None:
    house = read(LISTING, {"PlatformListingId": "L1", "OpenHouse": [{name: {}}]}).OpenHouse[0]
    assert getattr(house, name) == {}


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_string_round_trips(text: str) -> None:
    encoded = msgspec.json.encode(read(LISTING, {"PlatformListingId": "L1", "PublicRemarks": text}))
    assert orjson.loads(encoded)["PublicRemarks"] == text
