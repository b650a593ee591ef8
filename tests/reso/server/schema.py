"""The resources that the server knows: keys and fields with their Edm types, each declared once."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

Record = dict[str, Any]

STRING, INT32, INT64 = "Edm.String", "Edm.Int32", "Edm.Int64"
DECIMAL, BOOLEAN, DATE, TIMESTAMP = "Edm.Decimal", "Edm.Boolean", "Edm.Date", "Edm.DateTimeOffset"
STRINGS = "Collection(Edm.String)"
NUMBERS = frozenset({INT32, INT64, DECIMAL})

MODIFICATION_FIELD = "ModificationTimestamp"
EVENTS = "EntityEvent"


@dataclass(frozen=True)
class EntityType:
    """A resource: its name, the field that is its key, and the Edm type of each field."""

    name: str
    key: str
    fields: Mapping[str, str]

    @property
    def stamped(self) -> bool:
        """Whether the server writes the moment of the last change into its records."""
        return MODIFICATION_FIELD in self.fields


def _entity(name: str, key: str, /, **fields_of_types: str) -> EntityType:
    types = {
        "strings": STRING,
        "whole": INT32,
        "long": INT64,
        "decimal": DECIMAL,
        "flags": BOOLEAN,
        "dates": DATE,
        "moments": TIMESTAMP,
        "lists": STRINGS,
    }
    fields = {field: types[kind] for kind, names in fields_of_types.items() for field in names.split()}
    return EntityType(name, key, MappingProxyType({key: fields.pop(key)} | fields))


_PROPERTY = _entity(
    "Property",
    "ListingKey",
    strings=(
        "ListingKey ListingId ParcelNumber UnparsedAddress StreetNumber StreetDirPrefix StreetName StreetSuffix"
        " UnitNumber"
        " City StateOrProvince PostalCode PostalCodePlus4 CountyOrParish Country SubdivisionName"
        " StandardStatus MlsStatus PropertyType PropertySubType PublicRemarks ElementarySchool MiddleOrJuniorSchool"
        " HighSchool ElementarySchoolDistrict MiddleOrJuniorSchoolDistrict HighSchoolDistrict AssociationFeeFrequency"
        " VirtualTourURLUnbranded VirtualTourURLBranded ListAOR OriginatingSystemName SourceSystemKey"
        " ListAgentKey ListAgentMlsId ListAgentFullName CoListAgentKey CoListAgentFullName ListOfficeKey"
        " ListOfficeMlsId"
        " ListOfficeName CoListOfficeKey ListTeamKey BuyerAgentKey BuyerAgentFullName BuyerOfficeKey BuyerOfficeName"
        " BuyerAgencyCompensation BuyerAgencyCompensationType MajorChangeType"
        " PrivateRemarks AccessCode LockBoxSerialNumber LockBoxLocation OwnerName OwnerPhone OccupantName"
        " ShowingInstructions PrivateOfficeRemarks"
    ),
    whole=(
        "BedroomsTotal BathroomsTotalInteger BathroomsFull BathroomsHalf BathroomsThreeQuarter BathroomsOneQuarter"
        " BathroomsPartial YearBuilt Stories DaysOnMarket TaxYear PhotosCount"
    ),
    decimal=(
        "ListPrice OriginalListPrice ClosePrice Latitude Longitude LivingArea LotSizeAcres LotSizeSquareFeet"
        " GarageSpaces"
        " TaxAnnualAmount AssociationFee"
    ),
    flags=(
        "PoolPrivateYN WaterfrontYN ViewYN NewConstructionYN GarageYN InternetAddressDisplayYN"
        " InternetEntireListingDisplayYN"
    ),
    dates="ListingContractDate OnMarketDate CloseDate PurchaseContractDate OffMarketDate ExpirationDate",
    moments=(
        "ModificationTimestamp OriginalEntryTimestamp StatusChangeTimestamp PhotosChangeTimestamp PriceChangeTimestamp"
        " MajorChangeTimestamp"
    ),
    lists=(
        "Appliances Heating Cooling InteriorFeatures ExteriorFeatures View PoolFeatures WaterfrontFeatures"
        " ParkingFeatures"
        " CommunityFeatures Flooring Levels"
    ),
)
_MEMBER = _entity(
    "Member",
    "MemberKey",
    strings=(
        "MemberKey MemberMlsId MemberFirstName MemberLastName MemberMiddleName MemberFullName MemberNickname"
        " MemberEmail"
        " MemberPreferredPhone MemberMobilePhone MemberDirectPhone MemberOfficePhone MemberAddress1 MemberAddress2"
        " MemberCity MemberStateOrProvince MemberPostalCode MemberCountry MemberStatus MemberType MemberAOR JobTitle"
        " MemberBio MemberStateLicense MemberStateLicenseState MemberNationalAssociationId OfficeKey OfficeMlsId"
        " OfficeName MemberLoginId MemberPassword"
    ),
    moments="ModificationTimestamp OriginalEntryTimestamp",
    lists="MemberLanguages MemberDesignation",
)
_OFFICE = _entity(
    "Office",
    "OfficeKey",
    strings=(
        "OfficeKey OfficeMlsId OfficeName OfficePhone OfficeFax OfficeEmail OfficeAddress1 OfficeAddress2 OfficeCity"
        " OfficeStateOrProvince OfficePostalCode OfficeCountyOrParish OfficeStatus OfficeType OfficeBranchType"
        " OfficeAOR"
        " OfficeCorporateLicense FranchiseAffiliation MainOfficeKey MainOfficeMlsId OfficeBrokerKey OfficeManagerKey"
        " OfficeNationalAssociationId OfficeBio"
    ),
    flags="IDXOfficeParticipationYN",
    moments="ModificationTimestamp OriginalEntryTimestamp",
)
_TEAMS = _entity(
    "Teams",
    "TeamKey",
    strings=(
        "TeamKey TeamName TeamStatus TeamLeadKey TeamLeadMlsId TeamDescription TeamEmail TeamDirectPhone TeamAddress1"
        " TeamCity TeamStateOrProvince TeamPostalCode"
    ),
    moments="ModificationTimestamp OriginalEntryTimestamp",
)
_TEAM_MEMBERS = _entity(
    "TeamMembers",
    "TeamMemberKey",
    strings="TeamMemberKey TeamKey MemberKey MemberMlsId TeamMemberType TeamImpersonationLevel",
    moments="ModificationTimestamp OriginalEntryTimestamp",
)
_MEDIA = _entity(
    "Media",
    "MediaKey",
    strings=(
        "MediaKey ResourceName ResourceRecordKey ResourceRecordID MediaURL MediaCategory MediaType MediaStatus"
        " ShortDescription LongDescription ImageSizeDescription"
    ),
    whole="Order ImageWidth ImageHeight",
    flags="PreferredPhotoYN",
    moments="ModificationTimestamp MediaModificationTimestamp",
    lists="Permission",
)
_OPEN_HOUSE = _entity(
    "OpenHouse",
    "OpenHouseKey",
    strings=(
        "OpenHouseKey ListingKey ListingId OpenHouseStatus OpenHouseType OpenHouseRemarks VirtualOpenHouseURL"
        " LivestreamOpenHouseURL ShowingAgentKey"
    ),
    flags="AppointmentRequiredYN",
    dates="OpenHouseDate",
    moments="OpenHouseStartTime OpenHouseEndTime ModificationTimestamp OriginalEntryTimestamp",
)
_LOOKUP = _entity(
    "Lookup",
    "LookupKey",
    strings="LookupKey LookupName LookupValue StandardLookupValue LegacyODataValue",
    moments="ModificationTimestamp",
)
_EVENTS = _entity(
    EVENTS,
    "EntityEventSequence",
    long="EntityEventSequence",
    strings="ResourceName ResourceRecordKey ResourceRecordUrl",
)

ENTITY_TYPES: Mapping[str, EntityType] = MappingProxyType(
    {
        entity.name: entity
        for entity in (_OFFICE, _MEMBER, _TEAMS, _TEAM_MEMBERS, _PROPERTY, _MEDIA, _OPEN_HOUSE, _LOOKUP, _EVENTS)
    }
)

# What no reader that passes data on may ask for; in made-up records each holds a canary.
_PRIVATE_OF_PROPERTIES = (
    "PrivateRemarks AccessCode LockBoxSerialNumber LockBoxLocation OwnerName OwnerPhone OccupantName"
    " ShowingInstructions PrivateOfficeRemarks"
)
PRIVATE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"Property": tuple(_PRIVATE_OF_PROPERTIES.split()), "Member": ("MemberPassword", "MemberLoginId")}
)


def schema(without: frozenset[str]) -> dict[str, EntityType]:
    """Return the entity types without those, and without the fields (`Property.PoolPrivateYN`), that are named."""
    return {name: _less(entity, without) for name, entity in ENTITY_TYPES.items() if name not in without}


def _less(entity: EntityType, without: frozenset[str]) -> EntityType:
    kept = {field: type_ for field, type_ in entity.fields.items() if f"{entity.name}.{field}" not in without}
    return EntityType(entity.name, entity.key, MappingProxyType(kept))
