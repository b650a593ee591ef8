"""The metadata document says what the answers are: every value is held against it."""

import datetime as dt
import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.odata.odata_client import MAX_PAGE_SIZE_PREFERENCE, ODataClient

_EDM = "{http://docs.oasis-open.org/odata/ns/edm}"
_EDMX = "{http://docs.oasis-open.org/odata/ns/edmx}"
_SETS = sorted(
    (
        "EntityEvent",
        "Field",
        "HistoryTransactional",
        "Lookup",
        "Media",
        "Member",
        "Office",
        "OpenHouse",
        "Property",
        "TeamMembers",
        "Teams",
    )
)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,12})?(Z|[+-]\d\d:\d\d)", re.ASCII)


async def _schema(odata: ODataClient) -> ET.Element:
    reply = await odata.request("$metadata")
    assert reply.headers["Content-Type"].startswith("application/xml")
    (services,) = ET.fromstring(reply.raw).findall(f"{_EDMX}DataServices")  # noqa: S314 - our own service
    (schema,) = services
    return schema


async def _types(odata: ODataClient, name: str) -> tuple[str, dict[str, tuple[str, bool]]]:
    """Return the key of an entity type, and of its properties the type and whether it may be null."""
    for entity in (await _schema(odata)).findall(f"{_EDM}EntityType"):
        if entity.get("Name") == name:
            (reference,) = entity.findall(f"{_EDM}Key/{_EDM}PropertyRef")
            properties = entity.findall(f"{_EDM}Property")
            described = {
                str(element.get("Name")): (str(element.get("Type")), element.get("Nullable") != "false")
                for element in properties
            }
            return str(reference.get("Name")), described
    raise AssertionError(name)


async def test_there_is_one_schema_with_a_type_and_a_set_for_each_name(odata: ODataClient) -> None:
    schema = await _schema(odata)
    assert schema.get("Namespace") == "org.reso.metadata"
    assert sorted(str(element.get("Name")) for element in schema.findall(f"{_EDM}EntityType")) == _SETS
    sets = schema.findall(f"{_EDM}EntityContainer/{_EDM}EntitySet")
    assert sorted((str(item.get("Name")), str(item.get("EntityType"))) for item in sets) == [
        (name, f"org.reso.metadata.{name}") for name in _SETS
    ]
    document = (await odata.request(odata.root / "")).body
    assert sorted(row["name"] for row in document["value"]) == _SETS
    assert document["@odata.context"] == f"{odata.root}/$metadata"
    for entity in document["value"]:
        assert (await odata.request(entity["url"])).status == 200


async def test_events_have_the_properties_that_the_specification_names(odata: ODataClient) -> None:
    assert await _types(odata, "EntityEvent") == (
        "EntityEventSequence",
        {
            "EntityEventSequence": ("Edm.Int64", False),
            "ResourceName": ("Edm.String", True),
            "ResourceRecordKey": ("Edm.String", True),
            "ResourceRecordUrl": ("Edm.String", True),
        },
    )


_FIT: dict[str, Callable[[Any], bool]] = {
    "Edm.String": lambda value: type(value) is str,
    "Edm.Int64": lambda value: type(value) is int,
    "Edm.Decimal": lambda value: type(value) in {int, float},
    "Edm.Boolean": lambda value: type(value) is bool,
    "Edm.Date": lambda value: bool(_DAY.fullmatch(value) and dt.date.fromisoformat(value)),
    "Edm.DateTimeOffset": lambda value: bool(_MOMENT.fullmatch(value) and dt.datetime.fromisoformat(value)),
    "Collection(Edm.String)": lambda value: type(value) is list and all(type(value) is str for value in value),
}


# No listing of the generated data has changed.
@pytest.mark.parametrize("name", [name for name in _SETS if name != "HistoryTransactional"])
async def test_every_value_of_every_record_is_of_its_type(odata: ODataClient, name: str) -> None:
    key, types = await _types(odata, name)
    seen: set[str] = set()
    for item in await odata.walk(name, "all", MAX_PAGE_SIZE_PREFERENCE):
        assert item.keys() == types.keys()
        for field, value in item.items():
            edm, is_nullable = types[field]
            assert is_nullable if value is None else _FIT[edm](value), (field, value, edm)
            seen |= {field} if value not in (None, []) else set()
    assert key in seen
    assert len(seen) > len(types) / 2


# What the Data Dictionary 2.0 says of properties that are not strings.
_DICTIONARY_TYPES = {
    "Edm.Decimal": (
        "ListPrice ClosePrice LivingArea LotSizeAcres LotSizeSquareFeet GarageSpaces AssociationFee TaxAnnualAmount "
        "Latitude Longitude"
    ),
    "Edm.Int64": (
        "DaysOnMarket BedroomsTotal BathroomsTotalInteger BathroomsFull BathroomsHalf BathroomsOneQuarter "
        "BathroomsPartial BathroomsThreeQuarter YearBuilt TaxYear"
    ),
    "Edm.Date": "ListingContractDate CloseDate",
    "Edm.DateTimeOffset": ("ModificationTimestamp StatusChangeTimestamp OriginalEntryTimestamp PhotosChangeTimestamp"),
    "Edm.Boolean": "WaterfrontYN ViewYN PoolPrivateYN NewConstructionYN InternetAddressDisplayYN",
    "Collection(Edm.String)": "Appliances Cooling Flooring Heating InteriorFeatures ParkingFeatures Roof Sewer View",
}


async def test_properties_have_the_types_of_the_data_dictionary(odata: ODataClient) -> None:
    _, types = await _types(odata, "Property")
    for edm, names in _DICTIONARY_TYPES.items():
        assert {types[name][0] for name in names.split()} == {edm}
    _, types = await _types(odata, "Member")
    assert types["MemberDesignation"][0] == types["MemberLanguages"][0] == "Collection(Edm.String)"


@pytest.mark.parametrize("name", _SETS)
async def test_declared_unfilterable_properties_are_refused_and_others_accepted(odata: ODataClient, name: str) -> None:
    _, types = await _types(odata, name)
    schema = await _schema(odata)
    (entity_set,) = [
        item for item in schema.findall(f"{_EDM}EntityContainer/{_EDM}EntitySet") if item.get("Name") == name
    ]
    for kind, option, text in (("Filter", "filter", "{} eq null"), ("Sort", "orderby", "{} desc")):
        (annotation,) = [
            one for one in entity_set if str(one.get("Term")) == f"Org.OData.Capabilities.V1.{kind}Restrictions"
        ]
        refused = {element.text for element in annotation.iter(f"{_EDM}PropertyPath")}
        status = 400 if name == "EntityEvent" else 501
        for field, (edm, _) in types.items():
            asked = f"{field}/any()" if kind == "Filter" and edm.startswith("Collection") else text.format(field)
            reply = await odata.get(name, **{option: asked, "top": 1})
            assert reply.status == (status if field in refused else 200), (kind, field)


async def test_nothing_private_is_named(odata: ODataClient) -> None:
    raw = (await odata.request("$metadata")).raw.decode()
    assert not re.search("PrivateRemarks|LockBox|AccessCode|Commission|OwnerName|Password", raw)
