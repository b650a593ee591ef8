"""Values as a real service writes them: see spark_answers/README.md."""

from pathlib import Path
from typing import Any

import orjson

from mappings import LISTING
from tests.reso.mapping.record_source import InMemoryRecords, map_record

_ANSWERS = Path(__file__).parent / "spark_answers"
# Names of this service that the Data Dictionary spells differently.
_NAMES = {"BedsTotal": "BedroomsTotal", "BathsTotal": "BathroomsTotalDecimal", "BuildingAreaTotal": "LivingArea"}


def answered(name: str) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = orjson.loads((_ANSWERS / name).read_bytes())["D"]["Results"]
    return results


def test_a_real_listing_is_mapped_with_its_photos() -> None:
    fields = answered("listing.json")[0]["StandardFields"]
    photos, key = fields.pop("Photos"), fields["ListingKey"]
    named = {_NAMES.get(name, name): value for name, value in fields.items()} | {"PropertyType": "Residential"}
    held = InMemoryRecords().put("Property", key, **named)
    for order, photo in enumerate(photos, 1):
        row = {"MediaURL": photo["Uri1024"], "ShortDescription": photo["Name"], "PreferredPhotoYN": photo["Primary"]}
        held.put_part("Media", "Property", key, MediaCategory="Photo", Order=order, **row)
    made = map_record(LISTING, held, key)
    assert made.omitted == ()
    expected = {
        "ListPrice": 50_000,
        "Latitude": "48.7001",
        "Longitude": "-116.3237",
        "BedroomsTotal": 3,
        "YearBuilt": 1977,
        "LivingArea": 924,
        "City": "Bonners Ferry",
        "StateOrProvince": "ID",
        "PostalCode": "83805",
        "ListingID": "06-9395",
        "ListOfficeName": "Century 21 On The Lake",
        "Address": "7298 BIRCH",
    }
    assert {name: made.record.get(name) for name in expected} == expected
    images: Any = made.record["ListingImages"]
    assert len(images) == 3


def test_open_houses_with_times_without_a_day_are_left_out_and_reported() -> None:
    """The Data Dictionary requires timestamps; a guess could be a day off."""
    held = InMemoryRecords().put("Property", "k")
    for row in answered("open_houses.json"):
        times = {"OpenHouseStartTime": row["StartTime"], "OpenHouseEndTime": row["EndTime"]}
        held.put_part("OpenHouse", "Property", "k", OpenHouseDate=row["Date"], OpenHouseStatus="Active", **times)
    made = map_record(LISTING, held)
    assert made.record.get("OpenHouses") in (None, [])
    reasons = " ".join(reason for _, reason in made.omitted)
    assert all(text in reasons for text in ("'9:00 am'", "'09:00-07:00'", "'10/01/2010'", "the open house is left out"))
