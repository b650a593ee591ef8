"""What the RESO Web API should answer of generated data, worked out from the source records by hand."""

import datetime as dt
from typing import Any

from mappings.listing import PROPERTY_TYPES
from tests.contract.world import Envelope, World

_STATUS = {
    "Active": "Active",
    "Contingent": "Active Under Contract",
    "Pending": "Pending",
    "ComingSoon": "Coming Soon",
    "Sold": "Closed",
    "Expired": "Expired",
    "Canceled": "Canceled",
    "Withdrawn": "Withdrawn",
    "TempOffMarket": "Hold",
}
_TYPE = {
    "Residential": (1, 2, 8, 9, 22, 4, 18, 17),
    "Land": (3,),
    "Farm": (5,),
    "Residential Lease": (6,),
    "Residential Income": (7, 20, 21),
    "Commercial Sale": (10, 13, 14, 19, 16),
    "Business Opportunity": (11,),
    "Commercial Lease": (15,),
}
# Members that the Data Dictionary calls the same.
_SAME_NAME = (
    "BedroomsTotal",
    "BathroomsTotalInteger",
    "LivingArea",
    "LotSizeAcres",
    "GarageSpaces",
    "YearBuilt",
    "TaxAnnualAmount",
    "ListingContractDate",
    "StateOrProvince",
    "PostalCode",
    "WaterfrontYN",
    "ViewYN",
)
_NUMBERS = {name: number for number, name in PROPERTY_TYPES.items()}
PROPERTY_TYPE_NAMES = {number: name for name, numbers in _TYPE.items() for number in numbers}


def modified(envelope: Envelope) -> str:
    at = dt.datetime.fromisoformat(envelope["updated_at"]).astimezone(dt.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _listing(envelope: Envelope) -> dict[str, Any]:
    record = envelope["record"]
    return {
        "ListingKey": record["PlatformListingId"],
        "ModificationTimestamp": modified(envelope),
        "StandardStatus": _STATUS.get(record["Status"]),
        "PropertyType": PROPERTY_TYPE_NAMES.get(_NUMBERS.get(record["PropertyType"], -1)),
        "ListingId": record["ListingID"],
        "ListPrice": record["ListPrice"],
        "City": record["City"],
        "UnparsedAddress": record["Address"],
        "PoolPrivateYN": record["PoolYN"],
        "ListAgentKey": record["ListAgentUUID"],
        "ListOfficeKey": record["ListAgentPlatformOfficeID"],
        "ListOfficeMlsId": record["ListAgentOfficeID"],
        "ListOfficeName": record["ListOfficeName"],
        "ListAgentFullName": record["ListAgentFullName"],
        "CloseDate": record.get("SoldDate"),
        "ClosePrice": record.get("SoldPrice"),
        "BuyerAgentKey": record.get("BuyerAgentUUID"),
        "BuyerOfficeKey": record.get("BuyerAgentPlatformOfficeID"),
        "NewConstructionYN": record.get("NewConstructionYN"),
        "Heating": _feature(record, "Heating"),
        "Appliances": _feature(record, "Appliances"),
        "OriginalEntryTimestamp": record["CreatedDate"] and f"{record['CreatedDate']}T00:00:00Z",
        "Latitude": record["Latitude"] and float(record["Latitude"]),
        **{name: record.get(name) for name in _SAME_NAME},
    }


def _feature(record: dict[str, Any], name: str) -> list[str]:
    return [
        value
        for row in record["PropertyFeatures"]
        if row["PropertyFeatureName"] == name
        for value in row["PropertyFeatureValues"]
    ]


def _agent(envelope: Envelope) -> dict[str, Any]:
    record = envelope["record"]
    created = dt.datetime.fromtimestamp(record["created_timestamp"], dt.UTC)
    return {
        "MemberKey": record["agent_uuid"],
        "ModificationTimestamp": modified(envelope),
        "MemberStatus": "Active" if envelope.get("deactivated_at") is None else "Inactive",
        "MemberMlsId": record["mls_agent_id"],
        "MemberStateLicense": record["license"],
        "OriginatingSystemName": record["mls_name"],
        "MemberFullName": record["name"],
        "MemberFirstName": record["first_name"],
        "MemberLastName": record["last_name"],
        "MemberEmail": record["primary_email_address"],
        "OfficeName": record["office_name"],
        "OfficeMlsId": record["client_office_id"],
        "MemberLanguages": record["languages"],
        "OfficeKey": record["platform_office_id"],
        "OriginalEntryTimestamp": created.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }


def _office(envelope: Envelope) -> dict[str, Any]:
    record = envelope["record"]
    return {
        "OfficeKey": record["platform_office_id"],
        "ModificationTimestamp": modified(envelope),
        "OfficeStatus": "Active" if envelope.get("deactivated_at") is None else "Inactive",
        "OfficeMlsId": record["id"],
        "OfficeName": record["name"],
        "OfficeEmail": record["email"],
        "OfficePostalCode": record["zip_code"],
    }


def _team(envelope: Envelope) -> dict[str, Any]:
    record = envelope["record"]
    return {
        "TeamKey": record["uuid"],
        "ModificationTimestamp": modified(envelope),
        "TeamName": record["name"],
        "TeamPostalCode": record["zipcode"],
    }


KEYS = {"Property": "ListingKey", "Member": "MemberKey", "Office": "OfficeKey", "Teams": "TeamKey"}
_MADE = {
    "Property": (("listings", _listing), ("sold_listings", _listing)),
    "Member": (("agents", _agent),),
    "Office": (("offices", _office),),
    "Teams": (("teams", _team),),
}


def expected_entities(world: World, name: str, *companies: str) -> list[dict[str, Any]]:
    """Return what is expected of an entity set, in the order of its keys: of some companies, all if none is given."""
    found = [made(envelope) for resource, made in _MADE[name] for envelope in world.of(resource, *companies)]
    return sorted(found, key=lambda row: str(row[KEYS[name]]))
