"""Records as GeoJSON features: their geometries, bytes and counts."""

import json
from typing import Any

import orjson
import pytest
from aiohttp.test_utils import TestClient

from mappings import AGENT, LISTING, RESOURCES, SOLD_LISTING
from mappings.fields import View
from service import geojson
from service.http.requests import GEOJSON
from service.projection import Variant
from tests.service.stand_in import StandIn

LISTINGS = Variant(LISTING, View.INDEX)


def _feature(**record: Any) -> Any:
    encoded = orjson.dumps({"PlatformListingId": "L1", **record})
    return json.loads(b"".join(geojson.feature(LISTINGS, encoded)))


@pytest.mark.parametrize(
    ("latitude", "longitude", "coordinates"),
    [
        ("47.6147", "-122.285", [-122.285, 47.6147]),
        ("-90", "180", [180, -90]),
        ("90.0", "-180.000", [-180, 90]),
        (" +47. ", "0", [0, 47]),
        (47.5, -122, [-122, 47.5]),
    ],
)
def test_a_place_is_a_point_with_the_longitude_first(latitude: Any, longitude: Any, coordinates: list[float]) -> None:
    found = _feature(Latitude=latitude, Longitude=longitude)
    assert found["geometry"] == {"type": "Point", "coordinates": coordinates}


@pytest.mark.parametrize(
    "wrong",
    [
        *(None, "", "north", "90.0001", "-91", "nan", "inf", "1_0", "4,5", "0x10", "1e1", "\uff14\uff17", "--4", "1 2"),
        *(True, ["47"], {"deg": 47}, 91, "47" * 5_000),
    ],
)
def test_coordinates_out_of_range_are_null(wrong: Any) -> None:
    assert _feature(Latitude=wrong, Longitude="1")["geometry"] is None


@pytest.mark.parametrize("wrong", [None, "west", "180.01", "-180.01", 181])
def test_nor_is_a_longitude_beyond_180(wrong: Any) -> None:
    assert _feature(Latitude="1", Longitude=wrong)["geometry"] is None


@pytest.mark.parametrize("zero", ["0", "-0", "0.0000000", 0])
def test_the_placeholder_0_0_is_no_place(zero: Any) -> None:
    found = _feature(Latitude=zero, Longitude="0.0")
    assert (found["geometry"], found["properties"]["Latitude"]) == (None, zero)


def test_a_record_without_the_members_has_no_place() -> None:
    assert _feature()["geometry"] is None


@pytest.mark.parametrize("underscored", [False, True])
def test_a_feature_holds_the_record_byte_for_byte(underscored: bool) -> None:
    record = b'{"PlatformListingId":"a\\"\\u00e9","Longitude":"2","x":{"Latitude":"9"},"Latitude":"1"}'
    variant = Variant(LISTING, View.INDEX, underscored=underscored)
    if underscored:
        record = record.replace(b"PlatformListingId", b"platform_listing_id").lower()
    head, held, end = geojson.feature(variant, memoryview(record))
    assert bytes(held) == record
    assert (bytes(head), end) == (
        b'{"type":"Feature","id":"a\\"\\u00e9","geometry":{"type":"Point","coordinates":[2.0,1.0]},"properties":',
        b"}",
    )


@pytest.mark.parametrize("many", [0, 1, 2, 7])
def test_a_collection_is_one_and_its_records_are_counted(many: int) -> None:
    records = [orjson.dumps({"PlatformListingId": f"L{number}"}) for number in range(many)]
    for variant, name in ((LISTINGS, "FinalPage"), (Variant(LISTING, View.INDEX, underscored=True), "final_page")):
        renamed = [record.replace(b"PlatformListingId", b"platform_listing_id") for record in records]
        encoded = renamed if variant.underscored else records
        parts = geojson.feature_collection(variant, encoded, is_final=not many)
        assert json.loads(b"".join(parts)) == {
            "type": "FeatureCollection",
            name: not many,
            "features": [json.loads(b"".join(geojson.feature(variant, record))) for record in encoded],
        }


def test_listings_have_places_and_nothing_else_has() -> None:
    assert [resource for resource in RESOURCES if geojson.has_coordinates(resource)] == [
        resource for resource in RESOURCES if resource in (LISTING, SOLD_LISTING)
    ]
    assert not geojson.has_coordinates(AGENT)


async def test_what_a_key_may_not_see_is_in_no_feature(stand_in: StandIn, api: TestClient[Any, Any]) -> None:
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")
    stand_in.add("listings", "L1", {"PlatformListingId": "L1", "BuyerCommissionType": "canary"})
    seen = {}
    for granted in (None, ()):
        headers = {"x-api-key": stand_in.grant(fields=granted), "Accept": GEOJSON}
        async with api.get("/v1/listings?platform_company_id=acme", headers=headers) as answer:
            assert (answer.status, answer.content_type) == (200, GEOJSON)
            [found] = orjson.loads(await answer.read())["features"]
            seen[granted] = found["properties"]["BuyerCommissionType"]
    assert seen == {None: "canary", (): None}
