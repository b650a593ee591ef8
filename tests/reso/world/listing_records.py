"""Made-up listings: the home, its place and who lists it."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from sample.ingredients import between, pick, weighted_list
from tests.reso.server.schema import PRIVATE
from tests.reso.world.people_records import canary_value, mls_number, sample_some
from tests.reso.world.status_changes import status_change
from tests.reso.world.vocabulary import (
    ASSOCIATIONS,
    LAND,
    LISTS,
    PLACES,
    PROPERTY_TYPES,
    QUARTERS,
    REMARKS,
    SCHOOLS,
    STATUSES,
    STREET_KINDS,
    STREETS,
    TYPE_WHEEL,
)

if TYPE_CHECKING:
    from random import Random

    from tests.reso.server.schema import Record
    from tests.reso.world.status_changes import Participants

_STATUS_WHEEL = weighted_list(STATUSES)
_SQUARE_FEET_OF_AN_ACRE = 43_560


def make_listing(chance: Random, key: str, cast: Participants) -> Record:
    """Return a listing by one of the cast, in any status."""
    kind, price = pick(chance, TYPE_WHEEL), between(chance, 60, 3_000) * 1_000
    listed = cast.today - dt.timedelta(days=between(chance, 0, 365))
    record: Record = {
        "ListingKey": key,
        "ListingId": mls_number(chance) if chance.random() < 0.9 else None,
        "PropertyType": kind,
        "PropertySubType": pick(chance, PROPERTY_TYPES[kind]),
        "ListPrice": price,
        "OriginalListPrice": price + between(chance, 0, 50) * 1_000,
        "ListingContractDate": listed.isoformat(),
        "OnMarketDate": listed.isoformat(),
        "ExpirationDate": (listed + dt.timedelta(days=365)).isoformat(),
        "DaysOnMarket": (cast.today - listed).days,
        "OriginalEntryTimestamp": f"{listed}T09:10:11.120Z",
        "PhotosChangeTimestamp": f"{listed}T10:00:00.000Z",
        "PriceChangeTimestamp": None,
        "OriginatingSystemName": "Made-up MLS",
        "SourceSystemKey": None,
    }
    record |= _place(chance) | _rooms(chance, kind) | _site(chance, price) | _features(chance) | _shown(chance)
    record |= _listed_by(chance, cast) | {field: canary_value(field, chance) for field in PRIVATE["Property"]}
    return record | status_change(chance, record, pick(chance, _STATUS_WHEEL), cast)


def _place(chance: Random) -> Record:
    city, state, code, county, latitude, longitude = pick(chance, PLACES)
    house, street, kind, quarter = (
        between(chance, 1, 39_999),
        pick(chance, STREETS),
        pick(chance, STREET_KINDS),
        pick(chance, QUARTERS),
    )
    unit = str(between(chance, 1, 40)) if chance.random() < 0.2 else None
    line = " ".join(part for part in (str(house), quarter, street, kind, f"#{unit}" if unit else None) if part)
    postal = f"{code}{between(chance, 0, 99):02d}"
    return {
        "UnparsedAddress": f"{line}, {city} {state} {postal}",
        "StreetNumber": str(house),
        "StreetDirPrefix": quarter,
        "StreetName": street,
        "StreetSuffix": kind,
        "UnitNumber": unit,
        "City": city,
        "StateOrProvince": state,
        "PostalCode": postal,
        "PostalCodePlus4": None,
        "CountyOrParish": county,
        "Country": "US",
        "SubdivisionName": f"{street} Park" if chance.random() < 0.3 else None,
        "Latitude": round(latitude + chance.uniform(-0.2, 0.2), 6),
        "Longitude": round(longitude + chance.uniform(-0.2, 0.2), 6),
        "ElementarySchool": f"{pick(chance, SCHOOLS)} Elementary",
        "MiddleOrJuniorSchool": f"{pick(chance, SCHOOLS)} Middle",
        "HighSchool": f"{pick(chance, SCHOOLS)} High",
        "ElementarySchoolDistrict": f"{city} Public Schools",
        "MiddleOrJuniorSchoolDistrict": f"{city} Public Schools",
        "HighSchoolDistrict": f"{city} Public Schools",
    }


def _rooms(chance: Random, kind: str) -> Record:
    if kind == LAND:
        return {"BedroomsTotal": None, "BathroomsTotalInteger": None, "LivingArea": None, "YearBuilt": None}
    full, half = between(chance, 1, 4), between(chance, 0, 2)
    quarters = between(chance, 0, 1) if chance.random() < 0.3 else None
    return {
        "BedroomsTotal": between(chance, 0, 7),
        "BathroomsTotalInteger": full + half + (quarters or 0),
        "BathroomsFull": full,
        "BathroomsHalf": half,
        "BathroomsThreeQuarter": quarters,
        "BathroomsOneQuarter": None,
        "BathroomsPartial": None,
        "LivingArea": between(chance, 400, 6_000) + (0.5 if chance.random() < 0.05 else 0),
        "YearBuilt": between(chance, 1890, 2026),
        "Stories": between(chance, 1, 3),
        "GarageSpaces": between(chance, 0, 4),
        "GarageYN": chance.random() < 0.7,
    }


def _site(chance: Random, price: int) -> Record:
    acres = round(chance.uniform(0.05, 20), 4) if chance.random() < 0.8 else None
    has_fee = chance.random() < 0.3
    return {
        "LotSizeAcres": acres,
        "LotSizeSquareFeet": round(acres * _SQUARE_FEET_OF_AN_ACRE) if acres else None,
        "ParcelNumber": mls_number(chance),
        "TaxAnnualAmount": round(price * 0.011, 2),
        "TaxYear": 2025,
        "AssociationFee": between(chance, 20, 900) if has_fee else None,
        "AssociationFeeFrequency": "Monthly" if has_fee else None,
        "PoolPrivateYN": pick(chance, (True, False, False, None)),
        "WaterfrontYN": chance.random() < 0.1,
        "ViewYN": pick(chance, (True, False, None)),
        "NewConstructionYN": chance.random() < 0.1,
    }


def _features(chance: Random) -> Record:
    return {name: sample_some(chance, values) or pick(chance, ([], None)) for name, values in LISTS.items()}


def _shown(chance: Random) -> Record:
    tour = f"https://tours.example.com/{mls_number(chance)}" if chance.random() < 0.3 else None
    return {
        "PublicRemarks": " ".join(sample_some(chance, REMARKS, 5)) or None,
        "VirtualTourURLUnbranded": tour,
        "VirtualTourURLBranded": None,
        "InternetAddressDisplayYN": pick(chance, (True, True, True, False, None)),
        "InternetEntireListingDisplayYN": pick(chance, (True,) * 9 + (False,)),
        "PhotosCount": 0,
    }


def _listed_by(chance: Random, cast: Participants) -> Record:
    agent, other = pick(chance, cast.members), pick(chance, cast.members)
    has_second = chance.random() < 0.2 and other is not agent
    return {
        "ListAgentKey": agent["MemberKey"],
        "ListAgentMlsId": agent["MemberMlsId"],
        "ListAgentFullName": agent["MemberFullName"],
        "CoListAgentKey": other["MemberKey"] if has_second else None,
        "CoListAgentFullName": other["MemberFullName"] if has_second else None,
        "CoListOfficeKey": other["OfficeKey"] if has_second else None,
        "ListOfficeKey": agent["OfficeKey"],
        "ListOfficeMlsId": agent["OfficeMlsId"],
        "ListOfficeName": agent["OfficeName"],
        "ListTeamKey": pick(chance, cast.teams)["TeamKey"] if cast.teams and chance.random() < 0.1 else None,
        "ListAOR": pick(chance, ASSOCIATIONS),
        "BuyerAgencyCompensation": pick(chance, ("2.5", "3", None)),
        "BuyerAgencyCompensationType": "%",
    }
