"""What real feeds hold besides sense: absurd numbers, masked text, other shapes, dangling references, strange keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sample.ingredients import pick, uuid
from tests.reso.server.schema import ENTITY_TYPES, PRIVATE
from tests.reso.world.people_records import canary_value

if TYPE_CHECKING:
    from random import Random

    from tests.reso.server.schema import Record

MASK = "********"
FUTURE = ("2099-01-01T00:00:00.000Z", "2027-12-31T12:00:00.500Z", "9999-12-31T23:59:59.999Z")
KEYS = (
    "O'Brien 7",
    "50% off",
    "100%25",
    "a+b",
    "R&D=1",
    "Zürich-8001",
    "键-19",
    "#4?x=1",
    "semi;colon, comma",
    '"quoted"',
    "(in) parentheses",
    "Case-Twin",
    "CASE-TWIN",
)

# Each oddity: the fields that it puts into a record.
Oddity = Callable[["Random"], dict[str, Any]]


def _fixed(**fields: object) -> Oddity:
    return lambda _chance: dict(fields)


def _dangling(*names: str) -> Oddity:
    return lambda chance: {name: uuid(chance) for name in names}


def _null(*names: str) -> Oddity:
    return lambda _chance: dict.fromkeys(names)


def _masked(chance: Random) -> dict[str, Any]:
    entity = ENTITY_TYPES["Property"]
    structural = {entity.key, "ModificationTimestamp", *PRIVATE["Property"]}
    return {pick(chance, [name for name in entity.fields if name not in structural]): MASK for _ in range(3)}


PROPERTY: dict[str, Oddity] = {
    "absurd prices": _fixed(ListPrice=1e12, OriginalListPrice=0, ClosePrice=460581576218.37),
    "absurd garage": _fixed(GarageSpaces=374524099053.44, LotSizeAcres=587523115332.5822, Stories=73138),
    "absurd days": _fixed(DaysOnMarket=10752, YearBuilt=0, TaxYear=99999),
    "negative": _fixed(BedroomsTotal=-3, LivingArea=-120.5, GarageSpaces=-1, ListPrice=-5),
    "parts of whole numbers": _fixed(BathroomsTotalInteger=2.5, YearBuilt=1987.0, Stories=1.5, GarageSpaces=2.5),
    "numbers as text": _fixed(ListPrice="450000", BedroomsTotal="3", LivingArea="1,820"),
    "masked": _masked,
    "object for a list": _fixed(ExteriorFeatures={"Deck": True, "Patio": False}, Appliances={}),
    "objects in a list": _fixed(
        View=[{"Name": "Lake", "Value": True}, {"Name": "City", "Value": False}], Heating=[None, 7]
    ),
    "text for a list": _fixed(Cooling="Central Air,Ductless", InteriorFeatures=""),
    "unknown status": _fixed(StandardStatus="Sample StandardStatus EnumValue", MlsStatus="Sample"),
    "status without its space": _fixed(StandardStatus="ActiveUnderContract"),
    "no status": _null("StandardStatus"),
    "unknown type": _fixed(PropertyType="Sample PropertyType EnumValue", PropertySubType="Yurt"),
    "no dates": _null("OnMarketDate", "ListingContractDate", "StatusChangeTimestamp", "PhotosChangeTimestamp"),
    "year 9999": _fixed(
        StatusChangeTimestamp="9999-12-31T23:59:59.999Z", CloseDate="9999-12-31", ExpirationDate="9999-12-31"
    ),
    "year 1": _fixed(PhotosChangeTimestamp="0001-01-01T00:00:00.000Z", OnMarketDate="0001-01-01"),
    "no dates in date fields": _fixed(
        ListingContractDate="01/05/2026", OnMarketDate="2026-01-05T00:00:00Z", CloseDate="soon"
    ),
    "dangling agent": _dangling("ListAgentKey"),
    "dangling office": _dangling("ListOfficeKey"),
    "dangling buyer": _dangling("BuyerAgentKey", "BuyerOfficeKey", "CoListAgentKey", "ListTeamKey"),
    "no agent": _null("ListAgentKey", "ListAgentFullName", "ListAgentMlsId"),
    "no office": _null("ListOfficeKey", "ListOfficeName", "ListOfficeMlsId"),
    "closed without a day": _fixed(StandardStatus="Closed", CloseDate=None, ClosePrice=None),
    "active and closed": _fixed(StandardStatus="Active", CloseDate="2026-01-20", ClosePrice=1),
    "nowhere": _fixed(Latitude=0, Longitude=0),
    "off the earth": _fixed(Latitude=512.3, Longitude=-999),
    "no address": _null("UnparsedAddress", "StreetNumber", "StreetName", "City", "PostalCode"),
    "long remarks": lambda _chance: {"PublicRemarks": "All of it. " * 4_000},
    "strange remarks": _fixed(PublicRemarks="<script>alert('🏠')</script>\r\n\t\u202e\u0007 “quoted”", City="  "),
    "truths as text": _fixed(PoolPrivateYN="Y", WaterfrontYN=1, InternetEntireListingDisplayYN="No"),
}
MEMBER: dict[str, Oddity] = {
    "dangling office": _dangling("OfficeKey"),
    "no office": _null("OfficeKey", "OfficeMlsId", "OfficeName"),
    "no name": _null("MemberFirstName", "MemberLastName", "MemberFullName"),
    "masked": _fixed(MemberEmail=MASK, MemberMobilePhone=MASK, MemberPreferredPhone=MASK),
    "unknown status": _fixed(MemberStatus="Sample MemberStatus EnumValue"),
    "no status": _null("MemberStatus"),
    "object for a list": _fixed(MemberLanguages={"Spanish": True, "English": False}, MemberDesignation="CRS,GRI"),
}
OFFICE: dict[str, Oddity] = {
    "dangling main office": _dangling("MainOfficeKey"),
    "no name": _null("OfficeName", "MainOfficeKey"),
    "masked": _fixed(OfficePhone=MASK, OfficeEmail=MASK),
    "unknown status": _fixed(OfficeStatus="Sample OfficeStatus EnumValue"),
}
TEAMS: dict[str, Oddity] = {"dangling lead": _dangling("TeamLeadKey"), "no name": _null("TeamName", "TeamLeadKey")}
TEAM_MEMBERS: dict[str, Oddity] = {
    "dangling member": _dangling("MemberKey"),
    "dangling team": _dangling("TeamKey"),
    "no member": _null("MemberKey"),
}
MEDIA: dict[str, Oddity] = {
    "dangling parent": _dangling("ResourceRecordKey"),
    "no parent": _null("ResourceRecordKey"),
    "parent of an unknown resource": _fixed(ResourceName="Contacts"),
    "no address": _null("MediaURL"),
    "masked": _fixed(MediaURL=MASK, ShortDescription=MASK),
    "no order": _null("Order"),
    "same order": _fixed(Order=1, PreferredPhotoYN=True),
    "negative order": _fixed(Order=-1, ImageWidth=-5, ImageHeight=1e12),
    "deleted": _fixed(MediaStatus="Deleted"),
    "no scheme": _fixed(MediaURL="javascript:alert(1)"),
}
OPEN_HOUSES: dict[str, Oddity] = {
    "dangling listing": _dangling("ListingKey"),
    "no listing": _null("ListingKey"),
    "no times": _null("OpenHouseStartTime", "OpenHouseEndTime"),
    "no day": _null("OpenHouseDate"),
    "ends before it starts": _fixed(
        OpenHouseStartTime="2026-03-05T20:00:00.000Z", OpenHouseEndTime="2026-03-05T18:00:00.000Z"
    ),
    "year 9999": _fixed(OpenHouseDate="9999-12-31", OpenHouseStartTime="9999-12-31T23:59:59.999Z"),
    "masked": _fixed(OpenHouseRemarks=MASK, OpenHouseStartTime=MASK),
}
ODDITIES = {
    "Property": PROPERTY,
    "Member": MEMBER,
    "Office": OFFICE,
    "Teams": TEAMS,
    "TeamMembers": TEAM_MEMBERS,
    "Media": MEDIA,
    "OpenHouse": OPEN_HOUSES,
}


def put_oddity(chance: Random, resource: str, name: str, record: Record) -> None:
    """Put the oddity of a name into a record; whatever else is odd, what is private stays recognisable."""
    record.update(ODDITIES[resource][name](chance))
    record.update({field: canary_value(field, chance) for field in PRIVATE.get(resource, ())})
