"""What the search fields of numbers and features hold, and how documents of earlier versions get them."""

from typing import Any

import orjson
import pytest

from indexer.documents.builder import missing_values
from mappings import LISTING
from mappings.search_fields import Conversion, FieldOrigin
from mappings.stored_document import encode_document, split_record
from tests.indexer.parsed_lines import parse_line, search_fields
from tests.records import envelope

_ADDED = frozenset({Conversion.EXACT, Conversion.FEATURE, Conversion.COUNT})
_CHANGES: dict[str, Any] = {
    "ListPrice": 350_000.5,
    "LivingArea": 1200,
    "Latitude": "47.61",
    "Longitude": "west",
    "LotSizeSquareFeet": 10018.8,
    "AssociationFee": {},
    "City": "Kent",
    "PoolYN": False,
    "CreatedDate": "1970-01-02",
    "ListingImages": [{"FullURL": "https://example.com/1.jpg"}, {"FullURL": "https://example.com/2.jpg"}],
    "OpenHouse": [],
    "PropertyFeatures": [
        {"PropertyFeatureName": "Heating", "PropertyFeatureValues": ["Gas", "Oil"]},
        {"PropertyFeatureName": "Heating", "PropertyFeatureValues": ["Wood"]},
        {"PropertyFeatureName": "Roof", "PropertyFeatureValues": []},
        {"PropertyFeatureName": "Ghosts", "PropertyFeatureValues": ["Two"]},
    ],
}


def test_numbers_are_those_of_the_source_and_features_are_joined() -> None:
    found = search_fields(parse_line(LISTING, envelope(LISTING, _CHANGES)))
    assert (found["list_price"], found["living_area"]) == (350_000.5, 1200)
    assert (found["latitude"], found["square_feet"], found["created"]) == (47.61, 10018.8, 86_400_000)
    assert (found["city"], found["has_pool"], found["heating"]) == ("Kent", False, ["Gas", "Oil", "Wood"])
    assert found["photo_count"] == 2
    assert not {"longitude", "association_fee", "roof", "ghosts", "open_house_count"} & found.keys()


@pytest.mark.parametrize("lacks_all", [True, False])
def test_a_document_of_an_earlier_version_is_completed_from_its_record(lacks_all: bool) -> None:
    document = parse_line(LISTING, envelope(LISTING, _CHANGES))
    record = [field for field in LISTING.search_fields if field.origin is FieldOrigin.RECORD]
    added = {"clock", "sequence"} | {field.name for field in record if lacks_all or field.conversion in _ADDED}
    kept = {name: value for name, value in search_fields(document).items() if name not in added}
    earlier = encode_document(orjson.dumps(kept)[:-1], 1, 2, document.record)
    completed = missing_values(LISTING).complete(earlier)
    assert orjson.loads(completed) == orjson.loads(document.stamped_source(1, 2))
    assert split_record(completed)[1] == document.record


def test_a_document_of_this_version_and_a_tombstone_are_not_touched() -> None:
    source = parse_line(LISTING, envelope(LISTING, _CHANGES)).stamped_source(1, 2)
    assert missing_values(LISTING).complete(source) is source
    tombstone = encode_document(b'{"id":"x","feed_key":"a:x"', 1, 2, None)
    assert missing_values(LISTING).complete(tombstone) is tombstone
