"""Values have the types of the Data Dictionary, and are exact where the contract rounds them."""

from typing import Any

import pytest

from mappings import AGENT, LISTING
from service.reso.sets.edm_types import EdmType, converter_for
from tests.odata.conftest import MarketClient, agent
from tests.odata.odata_client import MAX_PAGE_SIZE_PREFERENCE
from tests.records import envelope

# Members of a record, with the property that shows each, and its value there.
_VALUES: dict[str, tuple[Any, str, Any]] = {
    "LotSizeAcres": (0.23, "LotSizeAcres", 0.23),
    "LivingArea": (2100.5, "LivingArea", 2100.5),
    "ListPrice": (450_000.5, "ListPrice", 450_000.5),
    "GarageSpaces": (2.5, "GarageSpaces", 2.5),
    "TaxAnnualAmount": (4321.12, "TaxAnnualAmount", 4321.12),
    "BathroomsTotalInteger": (2.5, "BathroomsTotalInteger", 3),
    "LotSizeSquareFeet": ("10018.8", "LotSizeSquareFeet", 10018.8),
    "AssociationFee": (250.25, "AssociationFee", 250.25),
    "Latitude": ("47.6062", "Latitude", 47.6062),
    "Longitude": ("-122.3321", "Longitude", -122.3321),
    "BathroomsPartial": ("1", "BathroomsPartial", 1),
    "CreatedDate": ("2026-05-01", "OriginalEntryTimestamp", "2026-05-01T00:00:00Z"),
    "ImagesLastModified": ("2026-05-02", "PhotosChangeTimestamp", "2026-05-02T00:00:00Z"),
    "StatusChangeDate": ("2026-05-03T10:00:00+02:00", "StatusChangeTimestamp", "2026-05-03T08:00:00Z"),
}
_FOUND_BY = (
    "LotSizeAcres eq 0.23",
    "LotSizeAcres gt 0.22 and LotSizeAcres lt 0.24",
    "LivingArea gt 2100",
    "ListPrice eq 450000.5",
    "GarageSpaces eq 2.5",
    "TaxAnnualAmount ge 4321.12 and TaxAnnualAmount lt 4321.13",
    "LotSizeSquareFeet eq 10018.8",
    "AssociationFee eq 250.25",
    "Latitude eq 47.6062 and Longitude lt -122.33",
    "BathroomsTotalInteger eq 3 and ListingKey ge 'E' and ListingKey lt 'F'",
    "OriginalEntryTimestamp eq 2026-05-01T00:00:00Z",
    "date(PhotosChangeTimestamp) eq 2026-05-02",
)


async def test_decimals_are_exact_here_and_whole_numbers_elsewhere(market: MarketClient) -> None:
    exact = {name: value for name, (value, _, _) in _VALUES.items()}
    await market.update(envelope(LISTING, {"PlatformListingId": "E1", **exact}, platform_company_id="a"))
    shown = (await market.request("Property('E1')")).body
    assert [shown[name] for _, name, _ in _VALUES.values()] == [value for _, _, value in _VALUES.values()]
    for text in _FOUND_BY:
        page = await market.page("Property", "all", MAX_PAGE_SIZE_PREFERENCE, filter=text, select="ListingKey")
        assert [entity["ListingKey"] for entity in page["value"]] == ["E1"], text
    ordered = await market.walk("Property", "all", {"Prefer": "maxpagesize=2"}, orderby="LotSizeAcres desc")
    acres = [row["LotSizeAcres"] for row in ordered if row["LotSizeAcres"] is not None]
    assert 0.23 in acres
    assert acres == sorted(acres, reverse=True)
    async with market.session.get(
        f"{market.base}/v1/listings/E1", headers={"x-api-key": market.keys["all"]}
    ) as response:
        record = await response.json()
    assert (record["LotSizeAcres"], record["ListPrice"], record["Latitude"]) == (0, 450_001, "47.6062")


async def test_features_of_one_name_are_one_collection(market: MarketClient) -> None:
    given = [("Heating", ["Gas"]), ("Roof", []), ("Heating", ["Oil", "Wood"]), ("Unknown", ["x"])]
    features = [{"PropertyFeatureName": name, "PropertyFeatureValues": values} for name, values in given]
    await market.update(
        envelope(LISTING, {"PlatformListingId": "E1", "PropertyFeatures": features}, platform_company_id="a")
    )
    shown = (await market.request("Property('E1')")).body
    assert (shown["Heating"], shown["Roof"], shown["Flooring"]) == (["Gas", "Oil", "Wood"], [], [])


async def test_designations_are_a_collection(market: MarketClient) -> None:
    identifier = "0b0e6d3c-5f0d-4f35-9d3c-111111111111"
    line = agent(identifier, "a")
    line["record"]["designations"] = "CRS, ABR"
    await market.update(line, resource=AGENT)
    assert (await market.request(f"Member('{identifier}')")).body["MemberDesignation"] == ["CRS", "ABR"]


@pytest.mark.parametrize(
    ("name", "edm", "value", "expected"),
    [
        ("Latitude", "Edm.Decimal", "47.61", 47.61),
        ("Latitude", "Edm.Decimal", " 47 ", 47),
        ("Latitude", "Edm.Decimal", "north", None),
        ("Latitude", "Edm.Decimal", "1e5", None),
        ("AssociationFee", "Edm.Decimal", {}, None),
        ("AssociationFee", "Edm.Decimal", True, None),
        ("BathroomsPartial", "Edm.Int64", 1.5, 2),
        ("StatusChangeDate", "Edm.DateTimeOffset", "2026-05-03", "2026-05-03T00:00:00Z"),
        ("StatusChangeDate", "Edm.DateTimeOffset", "2026-05-03T10:00:00+02:00", "2026-05-03T08:00:00Z"),
        ("StatusChangeDate", "Edm.DateTimeOffset", "last week", None),
        ("StatusChangeDate", "Edm.DateTimeOffset", "0001-01-01T00:00:00+14:00", None),
    ],
)
def test_a_value_has_its_type_or_is_null(name: str, edm: EdmType, value: object, expected: object) -> None:
    [member] = [field for field in LISTING.fields if field.name == name]
    convert = converter_for(member.kind, edm)
    assert convert is not None
    assert convert(value) == expected
