"""What the search fields of numbers, features and texts hold, and how documents of earlier versions get them."""

from typing import Any

import orjson
import pytest

from indexer.documents.builder import missing_values
from mappings import AGENT, LISTING
from mappings.search_fields import Conversion, FieldOrigin
from mappings.stored_document import encode_document, split_record
from tests.indexer.parsed_lines import parse_line, search_fields
from tests.records import envelope

_ADDED_FIRST = frozenset({Conversion.EXACT, Conversion.FEATURE, Conversion.COUNT})
_ADDED_LATER = frozenset({Conversion.TEXT, Conversion.OPEN_HOUSES})
_CHANGES: dict[str, Any] = {
    "ListPrice": 350_000.5,
    "LivingArea": 1200,
    "Latitude": "47.61",
    "Longitude": "west",
    "LotSizeSquareFeet": 10018.8,
    "AssociationFee": {},
    "City": "Kent",
    "ListOfficeName": "Kent Homes",
    "PoolYN": False,
    "CreatedDate": "1970-01-02",
    "ListingImages": [{"FullURL": "https://example.com/1.jpg"}, {"FullURL": "https://example.com/2.jpg"}],
    "OpenHouse": [
        {"Date": "2026-11-28", "StartTime": "13:00:00"},
        {"Date": None, "StartTime": "09:30:00"},
        {"Date": "2026-11-28", "StartTime": "13:00:00", "EndTime": "15:00:00"},
    ],
    "PropertyFeatures": [
        {"PropertyFeatureName": "Heating", "PropertyFeatureValues": ["Gas", "Oil"]},
        {"PropertyFeatureName": "Heating", "PropertyFeatureValues": ["Wood"]},
        {"PropertyFeatureName": "Roof", "PropertyFeatureValues": []},
        {"PropertyFeatureName": "Ghosts", "PropertyFeatureValues": ["Two"]},
    ],
}


def test_numbers_are_those_of_the_source_and_features_are_joined() -> None:
    found = search_fields(parse_line(LISTING, envelope(LISTING, _CHANGES, property_time_zone="America/Los_Angeles")))
    assert (found["list_price"], found["living_area"]) == (350_000.5, 1200)
    assert (found["latitude"], found["square_feet"], found["created"]) == (47.61, 10018.8, 86_400_000)
    assert (found["city"], found["has_pool"], found["heating"]) == ("Kent", False, ["Gas", "Oil", "Wood"])
    assert found["photo_count"] == 2
    assert found["open_house_tokens"] == [
        "20261128-20261128210000-20261128T130000",
        "--T093000",
        "20261128-20261128210000-20261128T130000-2",
    ]
    assert not {"longitude", "association_fee", "roof", "ghosts"} & found.keys()
    empty = search_fields(parse_line(LISTING, envelope(LISTING, {"OpenHouse": []})))
    assert not {"open_house_count", "open_house_tokens"} & empty.keys()


def test_a_value_of_any_type_is_found_as_the_text_that_is_shown() -> None:
    record = {"mls_agent_id": 4711, "license": "", "last_name": "O'Neil", "name": {}, "first_name": {"a": [1.5, None]}}
    found = search_fields(parse_line(AGENT, envelope(AGENT, record)))
    assert {name: found.get(name) for name in ("mls_id", "license", "last_name", "name", "first_name")} == {
        "mls_id": "4711",
        "license": "",
        "last_name": "O'Neil",
        "name": None,
        "first_name": '{"a":[1.5,null]}',
    }


@pytest.mark.parametrize("lacking", [frozenset(Conversion), _ADDED_FIRST | _ADDED_LATER, _ADDED_FIRST, _ADDED_LATER])
def test_a_document_of_an_earlier_version_is_completed_from_its_record(lacking: frozenset[Conversion]) -> None:
    document = parse_line(LISTING, envelope(LISTING, _CHANGES, property_time_zone="America/Los_Angeles"))
    record = [field for field in LISTING.search_fields if field.origin is FieldOrigin.RECORD]
    added = {"clock", "sequence"} | {field.name for field in record if field.conversion in lacking}
    kept = {name: value for name, value in search_fields(document).items() if name not in added}
    earlier = encode_document(orjson.dumps(kept)[:-1], 1, 2, document.record)
    completed = missing_values(LISTING).complete(earlier)
    assert orjson.loads(completed) == orjson.loads(document.stamped_source(1, 2))
    assert split_record(completed)[1] == document.record


def test_a_document_of_this_version_and_a_tombstone_are_not_touched() -> None:
    source = parse_line(LISTING, envelope(LISTING, _CHANGES, property_time_zone="America/Los_Angeles")).stamped_source(
        1, 2
    )
    assert missing_values(LISTING).complete(source) is source
    tombstone = encode_document(b'{"id":"x","feed_key":"a:x"', 1, 2, None)
    assert missing_values(LISTING).complete(tombstone) is tombstone
