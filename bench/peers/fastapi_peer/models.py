"""What the peer answers, as pydantic models; every member may be null, lists may be empty.

Moments and dates are texts, as the contract types them: `datetime` would be parsed, formatted, and spelt differently.
What the contract leaves untyped is `Any`, which costs no validation.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


class PartnerData(BaseModel):
    """What partners add to a listing."""

    attribute_1: str | None = None
    attribute_2: str | None = None


class PropertyFeature(BaseModel):
    """One kind of feature of a property with its values."""

    PropertyFeatureName: str | None = None
    PropertyFeatureValues: list[str] = []


class CompanyListingAttribute(BaseModel):
    """An attribute that the company gave a listing."""

    AttributeId: str | None = None
    AttributeName: str | None = None


class OpenHouseVisit(BaseModel):
    """One open house; `Date` is YYYY-MM-DD, times are local, HH:MM:SS."""

    Date: str | None = None
    StartTime: str | None = None
    EndTime: str | None = None
    VirtualOpenHouseYN: bool | None = None
    VirtualOpenHouseURL: Any = None
    Comment: Any = None


class ListingImage(BaseModel):
    """One image; width and height in pixels."""

    FullURL: str | None = None
    GalleryURL: str | None = None
    RawURL: str | None = None
    SmallURL: str | None = None
    ThumbURL: str | None = None
    Title: str | None = None
    Caption: str | None = None
    Description: str | None = None
    MimeType: str | None = None
    IsMainListingImage: bool | None = None
    Width: int | None = None
    Height: int | None = None


class Listing(BaseModel):
    """A listing as `GET /listings/{platform_listing_id}` answers it (spec, Listing)."""

    LotSizeAcres: int | None = None
    BathroomsFull: int | None = None
    BathroomsHalf: int | None = None
    BathroomsTotalInteger: int | None = None
    BathroomsTotal: int | None = None
    BedroomsTotal: int | None = None
    PublicTitle: str | None = None
    PublicRemarks: str | None = None
    ModificationTimestamp: str | None = None
    InternetAddressDisplayYN: bool | None = None
    DaysOnMarket: int | None = None
    ListingContractDate: str | None = None
    CreatedDate: str | None = None
    ElementarySchool: str | None = None
    GarageSpaces: int | None = None
    WaterfrontYN: bool | None = None
    HighSchool: str | None = None
    ListOfficeName: str | None = None
    ListPrice: int | None = None
    ListingID: str | None = None
    ListAgentFullName: str | None = None
    ListAgentUUID: str | None = None
    ListAgentOfficeID: str | None = None
    ListAgentPlatformOfficeID: str | None = None
    SecondaryListAgentFullName: str | None = None
    SecondaryListAgentUUID: str | None = None
    SchoolDistrict: str | None = None
    Address: str | None = None
    City: str | None = None
    CountyOrParish: str | None = None
    Latitude: str | None = None
    Longitude: str | None = None
    StateOrProvince: str | None = None
    PostalCode: str | None = None
    Community: str | None = None
    InternetEntireListingDisplayYN: bool | None = None
    MiddleOrJuniorSchool: str | None = None
    ListOfficeAOR: str | None = None
    ListOfficeAORArea: str | None = None
    PoolYN: bool | None = None
    PropertyType: str | None = None
    TaxAnnualAmount: int | None = None
    TaxYear: int | None = None
    SingleStory: bool | None = None
    LivingArea: int | None = None
    ViewYN: bool | None = None
    YearBuilt: int | None = None
    OnMarket: bool | None = None
    Status: str | None = None
    PlatformListingId: str | None = None
    AgentCreatedListing: bool | None = None
    VirtualTourURL: str | None = None
    TaxParcelId: str | None = None
    ListingURL: str | None = None
    ImagesLastModified: str | None = None
    SharedPartnerData: PartnerData | None = None
    PropertyFeatures: list[PropertyFeature] = []
    CompanyListingAttributes: list[CompanyListingAttribute] = []
    OpenHouse: list[OpenHouseVisit] = []
    ListingImages: list[ListingImage] = []
    BathroomsOneQuarter: Any = None
    BathroomsPartial: Any = None
    BathroomsThreeQuarter: Any = None
    AssociationFee: Any = None
    Address2: Any = None
    LotSizeSquareFeet: Any = None


class IndexListing(Listing):
    """A listing as `GET /listings` answers it: with the members that only the index has."""

    StatusChangeDate: str | None = None
    NewConstructionYN: bool | None = None
    BuyerCommissionType: str | None = None
    BuyerCommissionValue: str | None = None
    VendorModificationTimestamp: str | None = None


class ListingsPage(BaseModel):
    """A page of the feed; `FinalPage` is true on the last."""

    FinalPage: bool
    Listings: list[IndexListing]
