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
    underscore,
    untyped,
    uuid,
)
from mappings.resource import ChangeGroup, NameOf, Resource
from mappings.search_fields import (
    SearchField,
    date_millis,
    decimal,
    doc_value,
    element_count,
    envelope_keyword,
    envelope_object,
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
from mappings.visibility import ADDRESS_MEMBERS, ADDRESS_SWITCH, LISTING_SWITCH, OPT_OUTS

ON_MARKET_STATUSES = ("Active", "Pending", "Contingent")
COMING_SOON = "ComingSoon"
# The member of an envelope, and the search field, with what the source says of earlier states (`mappings.history`).
HISTORY = "history"
# The same with the name of the time zone of the property, and the search field with a token for each open house
# (`mappings.open_houses`).
TIME_ZONE, TOKENS = "property_time_zone", "open_house_tokens"
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
    "The photos, in the order in which to show them.",
    string("FullURL", "The photo in full size."),
    string("GalleryURL", "The photo in the size of a gallery."),
    string("RawURL", "The photo as the source has it."),
    string("SmallURL", "The photo in a small size."),
    string("ThumbURL", "The photo as a thumbnail."),
    string("Title", "The title of the photo.", example="Front"),
    string("Caption", "A line to show below the photo.", example="View from the street"),
    string("Description", "A longer description of the photo.", example="The front of the house in summer."),
    string("MimeType", "The media type of the photo."),
    boolean("IsMainListingImage", "Whether this is the main photo of the listing."),
    integer("Width", "The width in pixels."),
    integer("Height", "The height in pixels."),
    object_name="ListingImage",
)
_OPEN_HOUSES = "Open houses, in the local time of the property."
_OPEN_HOUSE_TIMES = (
    date("Date", "The day.", example="2026-03-14"),
    local_time("StartTime", "When it begins: local time, HH:MM:SS.", example="13:00:00"),
    local_time("EndTime", "When it ends: local time, HH:MM:SS.", example="15:30:00"),
)
_VIRTUAL_OPEN_HOUSE = (
    boolean("VirtualOpenHouseYN", "Whether it takes place online.", example=False),
    untyped("VirtualOpenHouseURL", "Where to join it online.", example="https://tours.example.com/open/17"),
    untyped("Comment", "A remark of the host.", example="Please use the side entrance."),
)


# The flat members in the order of the spec's table.
_FLAT: tuple[Field, ...] = (
    integer("LotSizeAcres", "The size of the lot in acres, rounded half up.").shown_exact(),
    integer("BathroomsFull", "The number of full bathrooms.").shown_exact(),
    integer("BathroomsHalf", "The number of half bathrooms, usually without bath and shower.").shown_exact(),
    integer("BathroomsTotalInteger", "The number of bathrooms, partial ones counted as one each.").shown_exact(),
    integer("BathroomsTotal", "The number of bathrooms, partial ones counted as fractions, rounded.").shown_exact(),
    integer("BedroomsTotal", "The number of bedrooms."),
    string("PublicTitle", "A headline for the public."),
    string("PublicRemarks", "A description of the property for the public."),
    date_time("ModificationTimestamp", "The source's time of the last change.").update_time(),
    string("StatusChangeDate", "When the status last changed. Given only while on the market.").only(INDEX_ONLY),
    boolean("InternetAddressDisplayYN", "Whether the seller allows the address to be shown online."),
    integer("DaysOnMarket", "The number of days on the market."),
    date("ListingContractDate", "The date of the listing contract."),
    date("CreatedDate", "When the source created the listing."),
    string("ElementarySchool", "The elementary school."),
    integer("GarageSpaces", "The number of cars that fit into the garage."),
    boolean("WaterfrontYN", "Whether the property is on the waterfront."),
    string("HighSchool", "The high school."),
    string("ListOfficeName", "The name of the listing office."),
    integer("ListPrice", "The asking price in US dollars."),
    string("ListingID", "The number of the listing in the MLS."),
    string("ListAgentFullName", "The name of the listing agent."),
    uuid("ListAgentUUID", "The `agent_uuid` of the listing agent."),
    string("ListAgentOfficeID", "The number of the listing office in the MLS."),
    reference("ListAgentPlatformOfficeID", "The `platform_office_id` of the listing office."),
    string("SecondaryListAgentFullName", "The name of the second listing agent."),
    uuid("SecondaryListAgentUUID", "The `agent_uuid` of the second listing agent."),
    string("SchoolDistrict", "The school district."),
    string("Address", "The street address."),
    string("City", "The city."),
    string("CountyOrParish", "The county or parish."),
    string("Latitude", "The latitude in decimal degrees, WGS 84."),
    string("Longitude", "The longitude in decimal degrees, WGS 84."),
    string("StateOrProvince", "The state or province, usually as two letters."),
    string("PostalCode", "The postal code."),
    string("Community", "The neighborhood or subdivision."),
    boolean("InternetEntireListingDisplayYN", "Whether the seller allows the listing to be shown online."),
    string("MiddleOrJuniorSchool", "The middle or junior high school."),
    string("ListOfficeAOR", "The association of Realtors of the listing office."),
    string("ListOfficeAORArea", "The area of that association."),
    boolean("NewConstructionYN", "Whether the building is new and was never occupied.").only(INDEX_ONLY),
    boolean("PoolYN", "Whether there is a pool."),
    string("PropertyType", "A name of the `property_types` legend.", values=tuple(PROPERTY_TYPES.values())),
    integer("TaxAnnualAmount", "The property tax of a year in US dollars."),
    integer("TaxYear", "The year of that tax."),
    boolean("SingleStory", "Whether the building has a single story."),
    integer("LivingArea", "The living area in square feet."),
    boolean("ViewYN", "Whether the property has a view."),
    integer("YearBuilt", "The year in which the building was finished."),
    boolean("OnMarket", "Whether the listing is on the market."),
    string("Status", "The state of the sale.", values=STATUSES),
    string("PlatformListingId", "The identifier used in paths and as paging cursor."),
    boolean("AgentCreatedListing", "Whether an agent created the listing outside the MLS."),
    string("VirtualTourURL", "A virtual tour.", example="https://tours.example.com/20199-yarn-basket-rd"),
    string("TaxParcelId", "The number of the parcel in the tax records."),
    string("ListingURL", "The page of the listing on the company's website."),
    date("ImagesLastModified", "When the photos last changed."),
    string("BuyerCommissionType", "How the commission offered to the buyer's agent is stated.")
    .only(INDEX_ONLY)
    .guarded("commission"),
    string("BuyerCommissionValue", "The commission offered to the buyer's agent, in the unit of its type.")
    .only(INDEX_ONLY)
    .guarded("commission"),
    string("VendorModificationTimestamp", "The vendor's time of the last change, as the vendor sent it.").only(
        INDEX_ONLY
    ),
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
        "What the property has, by kind.",
        string("PropertyFeatureName", "The kind of feature."),
        strings("PropertyFeatureValues", "The features of that kind."),
        object_name="PropertyFeature",
    ),
    objects(
        "CompanyListingAttributes",
        "Labels that the company gives to the listing.",
        string("AttributeId", "The number of the label."),
        string("AttributeName", "The text of the label."),
        object_name="CompanyListingAttribute",
    ),
)
_UNTYPED = (
    untyped("BathroomsOneQuarter", "The number of quarter bathrooms.", example=1),
    untyped("BathroomsPartial", "The number of partial bathrooms.", example=1),
    untyped("BathroomsThreeQuarter", "The number of three-quarter bathrooms.", example=1),
    untyped("AssociationFee", "The fee of the owners' association in US dollars.", example=250),
    untyped("Address2", "The second line of the address, such as the unit.", example="Unit 4"),
    untyped("LotSizeSquareFeet", "The size of the lot in square feet.", example=7200),
)
_SALE = (
    date("SoldDate", "The date of the sale."),
    integer("SoldPrice", "The price of the sale in US dollars."),
    string("BuyerAgentFullName", "The name of the buyer's agent."),
    uuid("BuyerAgentUUID", "The `agent_uuid` of the buyer's agent."),
    string("BuyerAgentOfficeName", "The name of the office of the buyer's agent."),
    string("BuyerAgentOfficeID", "The number of that office in the MLS."),
    reference("BuyerAgentPlatformOfficeID", "The `platform_office_id` of that office."),
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
# The people and offices of the listing side, and those of the buyer.
_AGENTS = tuple(field.name for field in _FLAT if "ListAgent" in field.name or field.name.startswith("ListOffice"))
_BUYER_AGENTS = tuple(field.name for field in _SALE if field.name.startswith("Buyer"))
_CHANGES = (
    ChangeGroup("images", ("ListingImages", "ImagesLastModified")),
    ChangeGroup("open_houses", ("OpenHouse",)),
    ChangeGroup("remarks", ("PublicTitle", "PublicRemarks")),
    ChangeGroup("address", tuple(sorted(ADDRESS_MEMBERS))),
    ChangeGroup("display", (LISTING_SWITCH, ADDRESS_SWITCH)),
)
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
    open_houses(TOKENS, "OpenHouse"),
    envelope_text(TIME_ZONE),
    envelope_object(HISTORY),
    *(feature(underscore(name), shown) for shown, name in _load_property_features().items()),
)

LISTING = Resource(
    name="Listing",
    alias="listings",
    identifier="PlatformListingId",
    fields=(
        *_FLAT,
        nested(
            "SharedPartnerData",
            "What partners add to the listing.",
            string("attribute_1", "The first attribute.", example="segment-3"),
            string("attribute_2", "The second attribute.", example="spring"),
            object_name="SharedPartnerData",
        ).guarded("partner_data"),
        *_FEATURES,
        objects("OpenHouse", _OPEN_HOUSES, *_OPEN_HOUSE_TIMES, *_VIRTUAL_OPEN_HOUSE, object_name="OpenHouse"),
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
    envelope_members=frozenset({"property_type_id", TIME_ZONE, HISTORY, "shared_partner_data_updated_at"}),
    names=_NAMES,
    zone_of=_ZONE_OF,
    changes=(
        ChangeGroup("price", ("ListPrice",), remembered=("ListPrice",)),
        ChangeGroup("status", ("Status", "OnMarket", "StatusChangeDate"), remembered=("Status",)),
        ChangeGroup("agents", _AGENTS),
        *_CHANGES,
    ),
)

SOLD_LISTING = Resource(
    name="SoldListing",
    alias="sold_listings",
    identifier="PlatformListingId",
    fields=(
        *_SOLD_FLAT,
        *_SALE,
        *_FEATURES,
        objects("OpenHouse", _OPEN_HOUSES, *_OPEN_HOUSE_TIMES, object_name="PastOpenHouse"),
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
    envelope_members=frozenset({"property_type_id", TIME_ZONE, HISTORY}),
    names=(
        *_NAMES,
        NameOf("BuyerAgentFullName", "BuyerAgentUUID", "agents"),
        NameOf("BuyerAgentOfficeName", "BuyerAgentPlatformOfficeID", "offices"),
    ),
    zone_of=_ZONE_OF,
    changes=(
        ChangeGroup("price", ("ListPrice", "SoldPrice"), remembered=("ListPrice", "SoldPrice")),
        ChangeGroup("status", ("Status", "OnMarket"), remembered=("Status",)),
        ChangeGroup("agents", (*_AGENTS, *_BUYER_AGENTS)),
        *_CHANGES,
    ),
)
