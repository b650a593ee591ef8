"""Listing and Sold Listing (spec, Resources and their fields), and their enumerations.

The property features that have a field in the RESO Data Dictionary are read from `reso.toml`.
"""

import tomllib
from importlib.resources import files

from mappings.fields import (
    INDEX_ONLY,
    Field,
    boolean,
    date,
    date_time,
    integer,
    local_time,
    nested,
    objects,
    reference,
    string,
    strings,
    strings_named,
    underscore,
    untyped_named,
    uuid,
)
from mappings.open_houses import DAYS, TIME_ZONE
from mappings.resource import NameOf, Resource
from mappings.search_fields import (
    SearchField,
    date_millis,
    decimal,
    doc_value,
    element_count,
    envelope_keyword,
    envelope_text,
    envelope_timestamp,
    feature,
    flag,
    keyword,
    keyword_with_doc_values,
    open_houses,
    text,
    whole_number,
)
from mappings.visibility import ADDRESS_MEMBERS, OPT_OUTS

ON_MARKET_STATUSES = ("Active", "Pending", "Contingent")
COMING_SOON = "ComingSoon"
FOR_SALE_STATUSES = (*ON_MARKET_STATUSES, COMING_SOON)
STATUSES = (*FOR_SALE_STATUSES, "Sold", "Expired", "Canceled", "Withdrawn", "TempOffMarket", "Other")

# The legend of `property_types`, spelt as in the spec.
PROPERTY_TYPES = {
    -1: "Not Found",
    1: "Residential",
    2: "Condo",
    3: "Land",
    4: "Mfghome",
    5: "Farm/Ranch",
    6: "Rental",
    7: "Multifamily",
    8: "Co-op",
    9: "Townhouse",
    10: "Commerical",
    11: "Business Opportunity",
    12: "Commercial Res Income",
    13: "Commercial Hotel",
    14: "Commercial Mobile Home Park",
    15: "Commercial Lease",
    16: "Commercial Land",
    17: "Moorage",
    18: "Timeshare",
    19: "Commercial Industrial",
    20: "Multifamily2_4",
    21: "Multifamily5up",
    22: "Apartment",
    23: "Highrise",
}


def _load_property_features() -> dict[str, str]:
    declared = tomllib.loads(files("mappings").joinpath("reso.toml").read_text(encoding="utf-8"))
    return dict(declared["Property"]["features"])


_IMAGE = objects(
    "ListingImages",
    *strings_named("FullURL", "GalleryURL", "RawURL", "SmallURL", "ThumbURL", "Title", "Caption", "Description"),
    string("MimeType"),
    boolean("IsMainListingImage"),
    integer("Width", "Pixels."),
    integer("Height", "Pixels."),
    object_name="ListingImage",
)
_OPEN_HOUSE_TIMES = (
    date("Date"),
    local_time("StartTime", "Local time, HH:MM:SS."),
    local_time("EndTime", "Local time, HH:MM:SS."),
)
_VIRTUAL_OPEN_HOUSE = (boolean("VirtualOpenHouseYN"), *untyped_named("VirtualOpenHouseURL", "Comment"))


# The flat members in the order of the spec's table.
_FLAT: tuple[Field, ...] = (
    integer("LotSizeAcres", "Acres, rounded half up.").shown_exact(),
    integer("BathroomsFull").shown_exact(),
    integer("BathroomsHalf").shown_exact(),
    integer("BathroomsTotalInteger").shown_exact(),
    integer("BathroomsTotal").shown_exact(),
    integer("BedroomsTotal"),
    *strings_named("PublicTitle", "PublicRemarks"),
    date_time("ModificationTimestamp", "The source's time of the last change.").update_time(),
    string("StatusChangeDate", "Given only while on the market.").only(INDEX_ONLY),
    boolean("InternetAddressDisplayYN"),
    integer("DaysOnMarket", "Days."),
    date("ListingContractDate"),
    date("CreatedDate"),
    string("ElementarySchool"),
    integer("GarageSpaces"),
    boolean("WaterfrontYN"),
    *strings_named("HighSchool", "ListOfficeName"),
    integer("ListPrice", "US dollars."),
    *strings_named("ListingID", "ListAgentFullName"),
    uuid("ListAgentUUID"),
    string("ListAgentOfficeID"),
    reference("ListAgentPlatformOfficeID"),
    string("SecondaryListAgentFullName"),
    uuid("SecondaryListAgentUUID"),
    *strings_named("SchoolDistrict", "Address", "City", "CountyOrParish"),
    string("Latitude", "Decimal degrees, WGS 84."),
    string("Longitude", "Decimal degrees, WGS 84."),
    *strings_named("StateOrProvince", "PostalCode", "Community"),
    boolean("InternetEntireListingDisplayYN"),
    *strings_named("MiddleOrJuniorSchool", "ListOfficeAOR", "ListOfficeAORArea"),
    boolean("NewConstructionYN").only(INDEX_ONLY),
    boolean("PoolYN"),
    string("PropertyType", "A name of the property_types legend."),
    integer("TaxAnnualAmount", "US dollars."),
    integer("TaxYear"),
    boolean("SingleStory"),
    integer("LivingArea", "Square feet."),
    boolean("ViewYN"),
    integer("YearBuilt"),
    boolean("OnMarket"),
    string("Status", "One of: " + ", ".join(STATUSES) + "."),
    string("PlatformListingId", "The identifier used in paths and as paging cursor."),
    boolean("AgentCreatedListing", "True means a non-MLS listing created by an agent."),
    *strings_named("VirtualTourURL", "TaxParcelId", "ListingURL"),
    date("ImagesLastModified"),
    string("BuyerCommissionType").only(INDEX_ONLY).guarded("commission"),
    string("BuyerCommissionValue").only(INDEX_ONLY).guarded("commission"),
    string("VendorModificationTimestamp").only(INDEX_ONLY),
)

# The members that sold listings omit (spec, Sold Listing).
_NOT_SOLD = frozenset(
    {
        "StatusChangeDate",
        "NewConstructionYN",
        "BuyerCommissionType",
        "BuyerCommissionValue",
        "VendorModificationTimestamp",
    }
)
_SOLD_FLAT = tuple(
    field.only(INDEX_ONLY) if field.name == "ListingURL" else field for field in _FLAT if field.name not in _NOT_SOLD
)

_FEATURES = (
    objects(
        "PropertyFeatures",
        string("PropertyFeatureName"),
        strings("PropertyFeatureValues"),
        object_name="PropertyFeature",
    ),
    objects(
        "CompanyListingAttributes",
        string("AttributeId"),
        string("AttributeName"),
        object_name="CompanyListingAttribute",
    ),
)
_UNTYPED = untyped_named(
    "BathroomsOneQuarter",
    "BathroomsPartial",
    "BathroomsThreeQuarter",
    "AssociationFee",
    "Address2",
    "LotSizeSquareFeet",
)
_SALE = (
    date("SoldDate"),
    integer("SoldPrice", "US dollars."),
    string("BuyerAgentFullName"),
    uuid("BuyerAgentUUID"),
    *strings_named("BuyerAgentOfficeName", "BuyerAgentOfficeID"),
    reference("BuyerAgentPlatformOfficeID"),
)

# Members that change without the content changing (decisions, `updated_since` clock).
_VOLATILE = frozenset({"ModificationTimestamp", "VendorModificationTimestamp", "DaysOnMarket", "SharedPartnerData"})
_NAMES = (
    NameOf("ListAgentFullName", "ListAgentUUID", "agents"),
    NameOf("SecondaryListAgentFullName", "SecondaryListAgentUUID", "agents"),
    NameOf("ListOfficeName", "ListAgentPlatformOfficeID", "offices"),
)
# The time zone of open houses is that of the office, unless the source has that of the property.
_ZONE_OF = NameOf(TIME_ZONE, "ListAgentPlatformOfficeID", "offices")
_TIMESTAMPS = {"PlatformListingId": "id", "ListingID": "listing_id"}
_SEARCH_FIELDS: tuple[SearchField, ...] = (
    keyword("agents", "ListAgentUUID", "SecondaryListAgentUUID", refers_to="agents"),
    keyword("offices", "ListAgentPlatformOfficeID", refers_to="offices"),
    # A code, compared for equality only.
    envelope_keyword("property_type_id"),
    doc_value("listing_id", "ListingID"),
    doc_value("modified", "ModificationTimestamp"),
    *OPT_OUTS,
    # Read by the RESO Web API alone.
    keyword("list_agent", "ListAgentUUID"),
    whole_number("bedrooms", "BedroomsTotal"),
    whole_number("bathrooms", "BathroomsTotalInteger"),
    whole_number("year_built", "YearBuilt"),
    whole_number("days_on_market", "DaysOnMarket"),
    decimal("list_price", "ListPrice"),
    decimal("living_area", "LivingArea"),
    decimal("acres", "LotSizeAcres"),
    decimal("square_feet", "LotSizeSquareFeet"),
    decimal("garage_spaces", "GarageSpaces"),
    decimal("association_fee", "AssociationFee"),
    decimal("annual_tax", "TaxAnnualAmount"),
    decimal("latitude", "Latitude"),
    decimal("longitude", "Longitude"),
    date_millis("contracted", "ListingContractDate"),
    date_millis("created", "CreatedDate"),
    date_millis("photos_changed", "ImagesLastModified"),
    keyword_with_doc_values("city", "City"),
    keyword_with_doc_values("county", "CountyOrParish"),
    keyword_with_doc_values("state", "StateOrProvince"),
    keyword_with_doc_values("postal_code", "PostalCode"),
    flag("has_pool", "PoolYN"),
    flag("is_waterfront", "WaterfrontYN"),
    flag("has_view", "ViewYN"),
    text("list_agent_name", "ListAgentFullName"),
    text("list_office_id", "ListAgentOfficeID"),
    text("list_office_name", "ListOfficeName"),
    element_count("photo_count", "ListingImages"),
    element_count("open_house_count", "OpenHouse"),
    open_houses(DAYS, "OpenHouse"),
    envelope_text(TIME_ZONE),
    *(feature(underscore(name), shown) for shown, name in _load_property_features().items()),
)

LISTING = Resource(
    name="Listing",
    alias="listings",
    identifier="PlatformListingId",
    fields=(
        *_FLAT,
        nested(
            "SharedPartnerData", *strings_named("attribute_1", "attribute_2"), object_name="SharedPartnerData"
        ).guarded("partner_data"),
        *_FEATURES,
        objects("OpenHouse", *_OPEN_HOUSE_TIMES, *_VIRTUAL_OPEN_HOUSE, object_name="OpenHouse"),
        _IMAGE,
        *_UNTYPED,
    ),
    search_fields=(
        *_SEARCH_FIELDS,
        keyword("status", "Status"),
        flag("agent_created", "AgentCreatedListing"),
        envelope_timestamp("partner_clock", "shared_partner_data_updated_at"),
        flag("is_new", "NewConstructionYN"),
    ),
    timestamps=_TIMESTAMPS,
    volatile=_VOLATILE,
    address=ADDRESS_MEMBERS,
    envelope_members=frozenset({"property_type_id", TIME_ZONE, "shared_partner_data_updated_at"}),
    names=_NAMES,
    zone_of=_ZONE_OF,
)

SOLD_LISTING = Resource(
    name="SoldListing",
    alias="sold_listings",
    identifier="PlatformListingId",
    fields=(
        *_SOLD_FLAT,
        *_SALE,
        *_FEATURES,
        objects("OpenHouse", *_OPEN_HOUSE_TIMES, object_name="PastOpenHouse"),
        _IMAGE,
        *_UNTYPED,
    ),
    search_fields=(
        *_SEARCH_FIELDS,
        keyword("buyer_agents", "BuyerAgentUUID", refers_to="agents"),
        keyword("buyer_offices", "BuyerAgentPlatformOfficeID", refers_to="offices"),
        date_millis("sold", "SoldDate"),
        decimal("sold_price", "SoldPrice"),
    ),
    timestamps=_TIMESTAMPS,
    volatile=_VOLATILE,
    address=ADDRESS_MEMBERS,
    envelope_members=frozenset({"property_type_id", TIME_ZONE}),
    names=(
        *_NAMES,
        NameOf("BuyerAgentFullName", "BuyerAgentUUID", "agents"),
        NameOf("BuyerAgentOfficeName", "BuyerAgentPlatformOfficeID", "offices"),
    ),
    zone_of=_ZONE_OF,
)
