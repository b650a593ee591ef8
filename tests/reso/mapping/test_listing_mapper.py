"""What becomes of a Property: status and type, fields, features, and what is never served."""

from typing import Any

import pytest

from indexer.documents.line_parser import ParsedChunk
from indexer.errors import InvalidRecordError
from indexer.reso.mapping.record_mapper import RecordMapper
from mappings import AGENT, LISTING, SOLD_LISTING, Resource
from mappings.data_dictionary import load_dictionary
from mappings.listing import PROPERTY_TYPES
from tests.indexer.parsed_lines import parse_line
from tests.reso.mapping.record_source import CHANGED, DICTIONARY, InMemoryRecords, envelope_of, map_record

KEY = "0B0E6D3C-5F0D-4F35-9D3C-111111111111"


def is_served(resource: Resource, held: InMemoryRecords, key: str = "k") -> bool:
    return RecordMapper(DICTIONARY, held).map_record(resource.alias, key) is not None


def test_the_least_that_a_listing_can_be() -> None:
    made = map_record(LISTING, InMemoryRecords().put("Property", "k"))
    assert made.record == {
        "PlatformListingId": "k",
        "ModificationTimestamp": CHANGED,
        "VendorModificationTimestamp": CHANGED,
        "Status": "Active",
        "PropertyType": "Not Found",
        "AgentCreatedListing": False,
        "PropertyFeatures": [],
        "CompanyListingAttributes": [],
        "OpenHouse": [],
        "ListingImages": [],
    }
    assert (made.envelope, made.omitted) == ({"property_type_id": -1}, ())


def test_a_composed_record_takes_the_quick_way_through_the_intake_uncorrected() -> None:
    made = map_record(LISTING, InMemoryRecords().put("Property", "k", PropertyType="Land", ListPrice=5))
    chunk = ParsedChunk()
    parse_line(LISTING, envelope_of(LISTING, made), chunk)
    assert (chunk.roundings, chunk.corrected) == ({}, 0)


@pytest.mark.parametrize(
    ("given", "status"),
    [
        *(("Active", "Active"), ("ActiveUnderContract", "Contingent"), ("active under-contract", "Contingent")),
        *(("Pending", "Pending"), ("Coming_Soon", "ComingSoon"), ("Expired", "Expired"), ("Canceled", "Canceled")),
        *(("Withdrawn", "Withdrawn"), ("Hold", "TempOffMarket"), (["Active"], "Active")),
    ],
)
def test_listings_have_our_status(given: object, status: str) -> None:
    held = InMemoryRecords().put("Property", "k", StandardStatus=given)
    assert map_record(LISTING, held).record["Status"] == status
    assert not is_served(SOLD_LISTING, held)


def test_what_is_closed_is_a_sold_listing_and_no_listing() -> None:
    held = InMemoryRecords().put(
        "Property", "k", StandardStatus="CLOSED", ClosePrice=1, CloseDate="2026-01-02T10:00:00Z"
    )
    record = map_record(SOLD_LISTING, held).record
    assert (record["Status"], record["SoldPrice"], record["SoldDate"]) == ("Sold", 1, "2026-01-02")
    assert "VendorModificationTimestamp" not in record
    assert not is_served(LISTING, held)


@pytest.mark.parametrize("resource", [LISTING, SOLD_LISTING])
@pytest.mark.parametrize("status", ["Delete", "Incomplete", "incomplete"])
def test_what_has_no_status_of_ours_is_not_served(resource: Resource, status: str) -> None:
    assert not is_served(resource, InMemoryRecords().put("Property", "k", StandardStatus=status))


def test_what_is_not_there_is_not_served() -> None:
    assert not is_served(LISTING, InMemoryRecords())
    assert not is_served(AGENT, InMemoryRecords().put("Property", "k"))


_NO_STATUS = "is missing, so it is unknown whether the listing is for sale"


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("StandardStatus", "Foo", "is 'Foo': not in [Property.status]"),
        *(("StandardStatus", masked, _NO_STATUS) for masked in (None, "***")),
        ("StandardStatus", {}, "is an object: not a text"),
        ("ListingKey", None, "is missing"),
        ("ListingKey", "***", "is missing"),
        ("ListingKey", {}, "is missing"),
        ("ListingKey", "other", "is 'other', but the record was found under 'k'"),
    ],
)
def test_a_record_without_its_key_or_a_known_status_is_a_fault(field: str, value: object, reason: str) -> None:
    with pytest.raises(InvalidRecordError) as fault:
        is_served(LISTING, InMemoryRecords().put("Property", "k", **{field: value}))
    assert (fault.value.field, fault.value.reason) == (field, reason)


def test_a_key_too_long_for_an_identifier_is_a_fault() -> None:
    with pytest.raises(InvalidRecordError, match="as an identifier it has 129 characters, not 1 to 128") as fault:
        is_served(LISTING, InMemoryRecords().put("Property", "k" * 129), "k" * 129)
    assert fault.value.field == "ListingKey"


@pytest.mark.parametrize(
    ("kind", "subtype", "number"),
    [
        *(("Residential", None, 1), ("Residential", "Condominium", 2), ("residential", "CONDO-MINIUM", 2)),
        *(("Residential", "Something New", 1), ("Residential", ["New", "Townhouse"], 9), ("Residential", {}, 1)),
        *(("Commercial Sale", "Hotel/Motel", 13), ("CommercialSale", "HotelMotel", 13), ("Land", "Condominium", 3)),
        # Type and subtype are not just joined: this is not a Residential Lease.
        *(("Residential", "Lease", 1), ("Residential Lease", None, 6), ("ManufacturedInPark", None, 4)),
    ],
)
def test_types_by_type_and_subtype(kind: str, subtype: object, number: int) -> None:
    made = map_record(LISTING, InMemoryRecords().put("Property", "k", PropertyType=kind, PropertySubType=subtype))
    assert made.envelope == {"property_type_id": number}
    assert made.record["PropertyType"] == PROPERTY_TYPES[number]


def test_every_entry_of_the_tables_leads_where_it_says() -> None:
    entity = DICTIONARY.entities["Property"]
    for name, number in entity.type.items():
        kind, _, subtype = name.partition("/")
        made = map_record(LISTING, InMemoryRecords().put("Property", "k", PropertyType=kind, PropertySubType=subtype))
        assert made.envelope["property_type_id"] == number, name
    for name, status in entity.status.items():
        held = InMemoryRecords().put("Property", "k", StandardStatus=name)
        assert is_served(LISTING, held) is (status not in {"", "Sold"}), name


def test_a_map_may_name_a_type_with_a_slash() -> None:
    dictionary = load_dictionary(b'[Property.type]\n"Farm/Ranch" = 5\n"Farm/Ranch/Horses" = 3')
    held = InMemoryRecords().put("Property", "k", PropertyType="Farm/Ranch")
    held.put("Property", "h", PropertyType="Farm/Ranch", PropertySubType="Horses")
    assert map_record(LISTING, held, dictionary=dictionary).envelope == {"property_type_id": 5}
    assert map_record(LISTING, held, "h", dictionary=dictionary).envelope == {"property_type_id": 3}


_DATED, _PARTS = {"OnMarketDate": "2026-01-01"}, {"StreetNumber": 12, "StreetDirPrefix": "NE", "StreetName": " Elm "}
_NO_TEXT, _TOO_MUCH = "is an object: not a text", "is 374524099053.44: more than 2147483647"
_COOLING = {"PropertyFeatureName": "Cooling", "PropertyFeatureValues": ["Central Air"]}
_OVEN = {"PropertyFeatureName": "Appliances", "PropertyFeatureValues": ["Oven"]}
# Fields of the source, the members that follow (None: none), and what is left out with which reason.
_MEMBERS: list[tuple[dict[str, Any], dict[str, Any], dict[str, str]]] = [
    ({"ListPrice": "450000.00", "LotSizeAcres": 0.25}, {"ListPrice": 450000, "LotSizeAcres": 0.25}, {}),
    ({"LotSizeSquareFeet": 10890.5, "Latitude": 47.5}, {"LotSizeSquareFeet": 10890.5, "Latitude": "47.5"}, {}),
    ({"WaterfrontYN": "N", "CloseDate": "2026-01-01"}, {"WaterfrontYN": False, "SoldDate": None}, {}),
    ({"PhotosChangeTimestamp": "2026-01-02T10:00:00Z"}, {"ImagesLastModified": "2026-01-02"}, {}),
    ({"ListingId": 7}, {"ListingID": "7"}, {}),
    # A value that cannot be kept is left out alone.
    ({"GarageSpaces": 374524099053.44, "BedroomsTotal": 3}, {"BedroomsTotal": 3, "GarageSpaces": None},
     {"GarageSpaces": _TOO_MUCH}),
    ({"DaysOnMarket": -1, "Latitude": {}}, {"DaysOnMarket": None, "Latitude": None},
     {"DaysOnMarket": "is -1: less than 0", "Latitude": _NO_TEXT}),
    # The first of several fields that has a value counts.
    ({"OriginalEntryTimestamp": CHANGED, **_DATED}, {"CreatedDate": "2026-11-20"}, {}),
    ({"OriginalEntryTimestamp": "***", **_DATED}, {"CreatedDate": "2026-01-01"}, {}),
    ({"OriginalEntryTimestamp": "soon", **_DATED}, {"CreatedDate": "2026-01-01"},
     {"OriginalEntryTimestamp": "is 'soon': not a timestamp such as 2026-11-20T10:00:00Z"}),
    # An address is joined of its parts where it is not given whole.
    ({**_PARTS, "StreetSuffix": "***"}, {"Address": "12 NE Elm"}, {}),
    ({**_PARTS, "UnparsedAddress": "1 Main St"}, {"Address": "1 Main St"}, {}),
    ({"StreetName": ""}, {"Address": None}, {}),
    ({"StreetNumber": {}, "StreetName": "Elm"}, {"Address": "Elm"}, {"StreetNumber": _NO_TEXT}),
    # A truth from a lookup.
    ({"Levels": ["One"]}, {"SingleStory": True}, {}),
    ({"Levels": "Two, one"}, {"SingleStory": True}, {}),
    ({"Levels": ["Two"], "StoriesTotal": 1}, {"SingleStory": False}, {}),
    ({"StoriesTotal": 1.0}, {"SingleStory": True}, {}),
    ({"StoriesTotal": 2}, {"SingleStory": False}, {}),
    ({"Levels": []}, {"SingleStory": None}, {}),
    ({"Levels": [{}], "StoriesTotal": 1}, {"SingleStory": True},
     {"Levels": "has an element that is an object without exactly one of Name, Value, LookupValue"}),
    # Features are those with values.
    ({"Cooling": {"Central Air": True, "None": False}, "Appliances": ["Oven", {}], "View": [], "Roof": "***"},
     {"PropertyFeatures": [_OVEN, _COOLING]},
     {"Appliances": "has an element that is an object without exactly one of Name, Value, LookupValue"}),
    ({"PropertyType": "Igloo", "PropertySubType": "Condominium"}, {"PropertyType": "Not Found"},
     {"PropertyType": "is 'Igloo': not in [Property.type]"}),
    # What is too long to search by.
    ({"ListingId": "x" * 9000, "PublicRemarks": "x" * 9000}, {"ListingID": None},
     {"ListingId": "has 9000 characters: more than 8000"}),
]  # fmt: skip


@pytest.mark.parametrize(("given", "expected", "left_out"), _MEMBERS)
def test_members_follow_from_fields(given: dict[str, Any], expected: dict[str, Any], left_out: dict[str, str]) -> None:
    made = map_record(LISTING, InMemoryRecords().put("Property", "k", **given))
    assert {name: made.record.get(name) for name in expected} == expected
    assert dict(made.omitted) == left_out


def test_references_are_the_identifiers_of_what_they_refer_to() -> None:
    held = InMemoryRecords().put(
        "Property", "k", ListAgentKey=KEY, ListOfficeKey="o/1", BuyerAgentKey=7, CoListAgentKey="x" * 200
    )
    made, composer = map_record(LISTING, held), RecordMapper(DICTIONARY, held)
    assert made.record["ListAgentUUID"] == composer.identifier("agents", KEY) == KEY.lower()
    assert made.record["ListAgentPlatformOfficeID"] == composer.identifier("offices", "o/1") == "o%2F1"
    assert made.record["SecondaryListAgentUUID"] == composer.identifier("agents", "x" * 200)
    held.put("Property", "k", StandardStatus="Closed", BuyerAgentKey=7)
    assert map_record(SOLD_LISTING, held).record["BuyerAgentUUID"] == composer.identifier("agents", "7")


def test_a_reference_that_can_be_no_identifier_is_left_out() -> None:
    keys = {"ListOfficeKey": "o" * 129, "ListAgentKey": "****", "CoListAgentKey": {}}
    made = map_record(LISTING, InMemoryRecords().put("Property", "k", **keys))
    assert not {"ListAgentPlatformOfficeID", "ListAgentUUID", "SecondaryListAgentUUID"} & made.record.keys()
    assert {field for field, _ in made.omitted} == {"ListOfficeKey", "CoListAgentKey"}


def test_private_fields_are_not_served_even_where_they_came() -> None:
    made = map_record(LISTING, InMemoryRecords().put("Property", "k", **dict.fromkeys(DICTIONARY.private, "secret")))
    assert "secret" not in str(made)


def test_an_unknown_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="'Mars/Base' is not a time zone"):
        RecordMapper(DICTIONARY, InMemoryRecords(), time_zone="Mars/Base")


def test_what_the_market_says_of_earlier_states_is_beside_the_record() -> None:
    said = {"OriginalListPrice": 120.5, "PriceChangeTimestamp": "2026-11-02T10:00:00+02:00", "MajorChangeType": "***"}
    held = InMemoryRecords().put("Property", "k", **said)
    expected = {"OriginalListPrice": 120.5, "PriceChangeTimestamp": said["PriceChangeTimestamp"]}
    assert map_record(LISTING, held).envelope["history"] == expected
    renamed = load_dictionary(b'[Property.history]\nOriginalListPrice = "MLS_FirstPrice"\nPriceChangeTimestamp = ""')
    held = InMemoryRecords().put("Property", "k", **said, MLS_FirstPrice=99)
    assert map_record(LISTING, held, dictionary=renamed).envelope["history"] == {"OriginalListPrice": 99}
    assert "MLS_FirstPrice" in renamed.requested_fields("Property")
    with pytest.raises(ValueError, match=r"Property\.history\.FirstPrice: is not one of OriginalListPrice, "):
        load_dictionary(b'[Property.history]\nFirstPrice = "MLS_FirstPrice"')
