"""The resources that the server knows: keys and fields with their Edm types, each declared once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]

STRING, INT32, INT64 = "Edm.String", "Edm.Int32", "Edm.Int64"
DECIMAL, BOOLEAN, DATE, TIMESTAMP = "Edm.Decimal", "Edm.Boolean", "Edm.Date", "Edm.DateTimeOffset"
STRINGS = "Collection(Edm.String)"
MODIFICATION_FIELD = "ModificationTimestamp"
EVENTS = "EntityEvent"

# What no reader that passes data on may ask for; in made-up records each holds a canary.
PRIVATE: Mapping[str, tuple[str, ...]] = {
    "Property": (
        *("PrivateRemarks", "AccessCode", "LockBoxSerialNumber", "LockBoxLocation", "OwnerName", "OwnerPhone"),
        *("OccupantName", "ShowingInstructions", "PrivateOfficeRemarks"),
    ),
    "Member": ("MemberPassword", "MemberLoginId"),
}


@dataclass(frozen=True)
class EntityType:
    """A resource: its name, the field that is its key, and the Edm type of each field."""

    name: str
    key: str
    fields: Mapping[str, str]


_NAMED = {
    STRINGS: """
        Appliances Heating Cooling InteriorFeatures ExteriorFeatures View PoolFeatures WaterfrontFeatures
        ParkingFeatures CommunityFeatures Flooring Levels MemberLanguages MemberDesignation Permission""",
    INT32: """
        BedroomsTotal BathroomsTotalInteger BathroomsFull BathroomsHalf BathroomsThreeQuarter BathroomsOneQuarter
        BathroomsPartial YearBuilt Stories DaysOnMarket TaxYear PhotosCount Order ImageWidth ImageHeight""",
    DECIMAL: """
        ListPrice OriginalListPrice ClosePrice Latitude Longitude LivingArea LotSizeAcres LotSizeSquareFeet
        GarageSpaces TaxAnnualAmount AssociationFee""",
}
_BY_NAME = {name: kind for kind, names in _NAMED.items() for name in names.split()}
_BY_ENDING = {"YN": BOOLEAN, "Date": DATE, "Time": TIMESTAMP, "Timestamp": TIMESTAMP, "Sequence": INT64}


def _edm_type(field: str) -> str:
    by_ending = (kind for ending, kind in _BY_ENDING.items() if field.endswith(ending))
    return _BY_NAME.get(field) or next(by_ending, STRING)


# The key of each resource comes first. Those that others refer to come before them.
_FIELDS = {
    "Office": """
        OfficeKey OfficeMlsId OfficeName OfficePhone OfficeFax OfficeEmail OfficeAddress1 OfficeAddress2 OfficeCity
        OfficeStateOrProvince OfficePostalCode OfficeCountyOrParish OfficeStatus OfficeType OfficeBranchType OfficeAOR
        OfficeCorporateLicense FranchiseAffiliation MainOfficeKey MainOfficeMlsId OfficeBio IDXOfficeParticipationYN
        ModificationTimestamp OriginalEntryTimestamp""",
    "Member": """
        MemberKey MemberMlsId MemberFirstName MemberLastName MemberMiddleName MemberFullName MemberNickname MemberEmail
        MemberPreferredPhone MemberMobilePhone MemberDirectPhone MemberOfficePhone MemberAddress1 MemberAddress2
        MemberCity MemberStateOrProvince MemberPostalCode MemberCountry MemberStatus MemberType MemberAOR JobTitle
        MemberBio MemberStateLicense MemberStateLicenseState MemberNationalAssociationId OfficeKey OfficeMlsId
        OfficeName MemberLanguages MemberDesignation ModificationTimestamp OriginalEntryTimestamp""",
    "Teams": """
        TeamKey TeamName TeamStatus TeamLeadKey TeamLeadMlsId TeamDescription TeamEmail TeamDirectPhone TeamAddress1
        TeamCity TeamStateOrProvince TeamPostalCode ModificationTimestamp OriginalEntryTimestamp""",
    "TeamMembers": """
        TeamMemberKey TeamKey MemberKey MemberMlsId TeamMemberType ModificationTimestamp OriginalEntryTimestamp""",
    "Property": """
        ListingKey ListingId ParcelNumber UnparsedAddress StreetNumber StreetDirPrefix StreetName StreetSuffix
        UnitNumber City StateOrProvince PostalCode PostalCodePlus4 CountyOrParish Country SubdivisionName StandardStatus
        MlsStatus PropertyType PropertySubType PublicRemarks ElementarySchool MiddleOrJuniorSchool HighSchool
        ElementarySchoolDistrict MiddleOrJuniorSchoolDistrict HighSchoolDistrict AssociationFeeFrequency
        VirtualTourURLUnbranded VirtualTourURLBranded ListAOR OriginatingSystemName SourceSystemKey ListAgentKey
        ListAgentMlsId ListAgentFullName CoListAgentKey CoListAgentFullName ListOfficeKey ListOfficeMlsId ListOfficeName
        CoListOfficeKey ListTeamKey BuyerAgentKey BuyerAgentFullName BuyerOfficeKey BuyerOfficeName
        BuyerAgencyCompensation BuyerAgencyCompensationType MajorChangeType BedroomsTotal BathroomsTotalInteger
        BathroomsFull BathroomsHalf BathroomsThreeQuarter BathroomsOneQuarter BathroomsPartial YearBuilt Stories
        DaysOnMarket TaxYear PhotosCount ListPrice OriginalListPrice ClosePrice Latitude Longitude LivingArea
        LotSizeAcres LotSizeSquareFeet GarageSpaces TaxAnnualAmount AssociationFee PoolPrivateYN WaterfrontYN ViewYN
        NewConstructionYN GarageYN InternetAddressDisplayYN InternetEntireListingDisplayYN ListingContractDate
        OnMarketDate CloseDate PurchaseContractDate OffMarketDate ExpirationDate ModificationTimestamp
        OriginalEntryTimestamp StatusChangeTimestamp PhotosChangeTimestamp PriceChangeTimestamp MajorChangeTimestamp
        Appliances Heating Cooling InteriorFeatures ExteriorFeatures View PoolFeatures WaterfrontFeatures
        ParkingFeatures CommunityFeatures Flooring Levels""",
    "Media": """
        MediaKey ResourceName ResourceRecordKey ResourceRecordID MediaURL MediaCategory MediaType MediaStatus
        ShortDescription LongDescription Order ImageWidth ImageHeight PreferredPhotoYN ModificationTimestamp Permission
        MediaModificationTimestamp""",
    "OpenHouse": """
        OpenHouseKey ListingKey ListingId OpenHouseStatus OpenHouseType OpenHouseRemarks VirtualOpenHouseURL
        LivestreamOpenHouseURL ShowingAgentKey AppointmentRequiredYN OpenHouseDate OpenHouseStartTime OpenHouseEndTime
        ModificationTimestamp OriginalEntryTimestamp""",
    EVENTS: "EntityEventSequence ResourceName ResourceRecordKey ResourceRecordUrl",
}


def _entity(name: str, text: str) -> EntityType:
    fields = [*text.split(), *PRIVATE.get(name, ())]
    return EntityType(name, fields[0], {field: _edm_type(field) for field in fields})


ENTITY_TYPES: Mapping[str, EntityType] = {name: _entity(name, text) for name, text in _FIELDS.items()}


def schema(without: frozenset[str]) -> dict[str, EntityType]:
    """Return the entity types without those, and without the fields (`Property.PoolPrivateYN`), that are named."""
    return {name: _less(entity, without) for name, entity in ENTITY_TYPES.items() if name not in without}


def _less(entity: EntityType, without: frozenset[str]) -> EntityType:
    kept = {field: kind for field, kind in entity.fields.items() if f"{entity.name}.{field}" not in without}
    return EntityType(entity.name, entity.key, kept)


def complete(resource: str, record: Record) -> Record:
    """Return a record with all fields of its resource, null where it says nothing."""
    return dict.fromkeys(ENTITY_TYPES[resource].fields) | record
