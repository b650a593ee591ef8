"""What a usable line becomes, and which parts are normalized silently or counted."""

from typing import Any

import orjson
import pytest

from indexer.documents.line_parser import ParsedChunk
from mappings import AGENT, COMPANY, LISTING, SOLD_LISTING, TEAM, Resource
from mappings.listing import ON_MARKET_STATUSES, STATUSES
from mappings.search_fields import SYSTEM_FIELDS
from tests.indexer.parsed_lines import parse_line, search_fields
from tests.records import deletion, envelope


def stored(
    resource: Resource, record: dict[str, Any], chunk: ParsedChunk | None = None, **changes: Any
) -> dict[str, Any]:
    draft = parse_line(resource, envelope(resource, record, **changes), chunk)
    assert draft.record is not None
    parsed: dict[str, Any] = orjson.loads(draft.record)
    return parsed


@pytest.mark.parametrize(
    ("number", "whole", "counted"),
    [
        *((0.25, 0, 1), (0.5, 1, 1), (2.5, 3, 1), (0.49999999999999994, 0, 1), (-0.5, 0, 1), (-1.5, -1, 1)),
        *((3.0, 3, 0), (0.0, 0, 0), (7, 7, 0)),
    ],
)
def test_a_fraction_is_rounded_half_up_and_counted(number: float, whole: int, counted: int) -> None:
    chunk = ParsedChunk()
    answer = stored(LISTING, {"LotSizeAcres": number}, chunk)["LotSizeAcres"]
    assert (answer, type(answer)) == (whole, int)
    assert sum(rounding.count for rounding in chunk.roundings.values()) == counted


def test_fractions_inside_nested_objects_are_rounded_too() -> None:
    chunk = ParsedChunk()
    images = [{"Width": 1.5, "Height": 2.0}, {"Width": 3, "Height": 4.4}]
    found = stored(LISTING, {"ListingImages": images}, chunk)["ListingImages"]
    assert [(image["Width"], image["Height"]) for image in found] == [(2, 2), (3, 4)]
    assert sum(rounding.count for rounding in chunk.roundings.values()) == 2


def test_absent_members_are_null_and_absent_lists_empty_at_every_depth() -> None:
    sent = envelope(LISTING) | {
        "record": {"PlatformListingId": "x", "Status": "Active", "PropertyFeatures": [{}], "SharedPartnerData": {}}
    }
    draft = parse_line(LISTING, sent)
    assert draft.record is not None
    parsed = orjson.loads(draft.record)
    assert list(parsed) == [field.name for field in LISTING.stored]
    assert parsed["ListingImages"] == parsed["OpenHouse"] == []
    assert parsed["PropertyFeatures"] == [{"PropertyFeatureName": None, "PropertyFeatureValues": []}]
    assert parsed["SharedPartnerData"] == {"attribute_1": None, "attribute_2": None}
    assert parsed["ListPrice"] is None


@pytest.mark.parametrize(
    ("given", "spelt"),
    [
        *(("active", "Active"), ("coming soon", "ComingSoon"), ("COMING_SOON", "ComingSoon")),
        *(("temp off-market", "TempOffMarket"), ("Sold", "Sold")),
        *((status.upper(), status) for status in STATUSES),
    ],
)
def test_status_is_spelt_as_declared_and_on_market_follows_it(given: str, spelt: str) -> None:
    record = stored(LISTING, {"Status": given, "OnMarket": None})
    assert record["Status"] == spelt
    assert record["OnMarket"] is (spelt in ON_MARKET_STATUSES)


def test_an_on_market_that_contradicts_the_status_is_corrected_and_counted() -> None:
    chunk = ParsedChunk()
    assert stored(LISTING, {"Status": "Sold", "OnMarket": True}, chunk)["OnMarket"] is False
    assert chunk.corrected == 1
    stored(LISTING, {"Status": "Active", "OnMarket": True}, chunk)
    assert chunk.corrected == 1


@pytest.mark.parametrize(("given", "kept"), [(None, {"is_nrt": None}), ({"is_nrt": True}, {"is_nrt": True})])
def test_the_attributes_of_a_company_are_an_object_also_without_data(given: object, kept: object) -> None:
    assert stored(COMPANY, {"public_partner_attrs": given})["public_partner_attrs"] == kept


@pytest.mark.parametrize(("status", "kept"), [("Active", True), ("ComingSoon", False), ("Sold", False)])
def test_status_change_date_is_kept_only_on_the_market(status: str, kept: bool) -> None:
    record = stored(LISTING, {"Status": status, "StatusChangeDate": "2026-01-01"})
    assert record["StatusChangeDate"] == ("2026-01-01" if kept else None)


@pytest.mark.parametrize(
    ("name", "number", "stored_name", "found_number"),
    [
        ("condo", None, "Condo", 2),
        (" CO-OP ", None, "Co-op", 8),
        (None, 5, "Farm/Ranch", 5),
        (None, None, None, -1),
        ("Condo", 2, "Condo", 2),
    ],
)
def test_name_and_number_of_the_property_type_complete_each_other(
    name: str | None, number: int | None, stored_name: str | None, found_number: int
) -> None:
    sent = envelope(SOLD_LISTING, {"PropertyType": name}, property_type_id=number)
    draft = parse_line(SOLD_LISTING, sent)
    assert draft.record is not None
    assert orjson.loads(draft.record)["PropertyType"] == stored_name
    assert search_fields(draft)["property_type_id"] == found_number


def test_a_company_is_named_by_key_or_number_and_stored_by_key() -> None:
    assert parse_line(TEAM, envelope(TEAM, platform_company_id="7")).company == "other"
    for given, kept in (("7", "other"), ("far", "far")):
        draft = parse_line(COMPANY, envelope(COMPANY, parent_company_id=given))
        assert search_fields(draft)["parent_company_id"] == kept


def test_a_deletion_needs_only_its_identifier_and_may_name_a_company_that_is_gone() -> None:
    draft = parse_line(TEAM, deletion(TEAM, "t") | {"platform_company_id": "gone"})
    assert (draft.id, draft.company, draft.record, draft.is_tombstone) == ("t", "gone", None, True)
    of_others = {"proof_low", "proof_high", "moved_to"}  # of what there is, and of departures
    assert search_fields(draft).keys() == {field.name for field in SYSTEM_FIELDS} - of_others | {"changed"}


def test_a_null_in_the_envelope_counts_as_absent() -> None:
    sent = envelope(AGENT) | {"deleted": None, "source_agent_id": None, "deactivated_at": None}
    assert search_fields(parse_line(AGENT, sent)).keys().isdisjoint({"source_agent_id", "deactivated"})
