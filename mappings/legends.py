"""The enumerations of listings: statuses and property types."""

ON_MARKET_STATUSES = ("Active", "Pending", "Contingent")
COMING_SOON = "ComingSoon"
STATUSES = (*ON_MARKET_STATUSES, COMING_SOON, "Sold", "Expired", "Canceled", "Withdrawn", "TempOffMarket", "Other")

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
