"""Words that made-up records are made of, and the lookup values of the world."""

from __future__ import annotations

# The eleven display names of StandardStatus, with how many of a hundred records have each.
STATUSES = {
    "Active": 52,
    "Closed": 16,
    "Pending": 8,
    "Active Under Contract": 6,
    "Coming Soon": 4,
    "Expired": 4,
    "Withdrawn": 3,
    "Canceled": 3,
    "Hold": 2,
    "Incomplete": 1,
    "Delete": 1,
}
UNDER_CONTRACT = frozenset({"Pending", "Active Under Contract", "Closed"})
OFF_MARKET = frozenset({"Closed", "Expired", "Withdrawn", "Canceled", "Delete"})

# Each type with its subtypes; land has no rooms.
LAND = "Land"
PROPERTY_TYPES = {
    "Residential": ("Single Family Residence", "Condominium", "Townhouse", "Duplex", "Manufactured Home", "Cabin"),
    "Residential Income": ("Duplex", "Triplex", "Quadruplex", "Multi Family"),
    "Residential Lease": ("Apartment", "Single Family Residence", "Condominium"),
    LAND: ("Unimproved Land", "Timberland"),
    "Farm": ("Farm", "Ranch", "Agriculture"),
    "Commercial Sale": ("Office", "Retail", "Warehouse", "Mixed Use"),
    "Commercial Lease": ("Office", "Retail", "Industrial"),
    "Manufactured In Park": ("Manufactured Home", "Mobile Home"),
    "Business Opportunity": ("Business", "Hotel/Motel"),
}
TYPE_SHARES = {"Residential": 14, LAND: 2} | dict.fromkeys(set(PROPERTY_TYPES) - {"Residential", LAND}, 1)
TYPE_WHEEL = sorted(name for name, share in TYPE_SHARES.items() for _ in range(share))

LISTS = {
    "Appliances": (
        "Dishwasher",
        "Disposal",
        "Dryer",
        "Microwave",
        "Range",
        "Refrigerator",
        "Washer",
        "Wine Refrigerator",
    ),
    "Heating": ("Baseboard", "Electric", "Fireplace(s)", "Forced Air", "Heat Pump", "Natural Gas", "Radiant"),
    "Cooling": ("Ceiling Fan(s)", "Central Air", "Ductless", "None", "Wall Unit(s)"),
    "InteriorFeatures": ("Ceiling Fan(s)", "High Ceilings", "Kitchen Island", "Pantry", "Walk-In Closet(s)", "Wet Bar"),
    "ExteriorFeatures": ("Balcony", "Courtyard", "Fire Pit", "Garden", "Outdoor Grill", "Rain Gutters"),
    "View": ("City", "Lake", "Mountain(s)", "Park/Greenbelt", "Territorial", "Water"),
    "PoolFeatures": ("Gunite", "Heated", "In Ground", "Private", "Salt Water"),
    "WaterfrontFeatures": ("Beach Front", "Creek", "Lake Front", "River Access"),
    "ParkingFeatures": ("Attached", "Carport", "Driveway", "Garage", "On Street"),
    "CommunityFeatures": ("Clubhouse", "Curbs", "Lake", "Park", "Sidewalks"),
    "Flooring": ("Carpet", "Hardwood", "Laminate", "Tile", "Vinyl"),
    "Levels": ("One", "Two", "Three Or More", "Multi/Split"),
}

# City, state, the beginning of its postal codes, county, and a point in the middle of it.
PLACES = (
    ("Ashgrove", "WA", "981", "King", 47.61, -122.33),
    ("Bellmere", "WA", "980", "King", 47.58, -122.16),
    ("Port Harlan", "WA", "983", "Kitsap", 47.65, -122.62),
    ("Millbrook", "OR", "972", "Multnomah", 45.52, -122.67),
    ("St. Orrin", "OR", "974", "Lane", 44.05, -123.09),
    ("Coeur Vallée", "ID", "838", "Kootenai", 47.68, -116.78),
    ("Los Sauces", "CA", "956", "Sacramento", 38.58, -121.49),
    ("Peñasco Hills", "NM", "875", "Santa Fe", 35.68, -105.94),
    ("O'Fallon Springs", "MO", "633", "St. Charles", 38.81, -90.7),
)
FIRST_NAMES = ("Ada", "Björn", "Carmen", "Dmitri", "Eun-ji", "Fatima", "Grace", "Hugo", "Inés", "Jamal", "Kiri", "Liam")
LAST_NAMES = (
    "Abara",
    "Brandt",
    "Castillo",
    "D'Angelo",
    "Eriksen",
    "Fischer",
    "Garcia",
    "Huang",
    "Ivanova",
    "Jones",
    "Ng",
)
STREETS = ("Alder", "Birch", "Cedar", "Dogwood", "Elm", "Fir", "Hawthorn", "Larch", "Maple", "Oak", "Pine", "Willow")
STREET_KINDS = ("St", "Ave", "Ln", "Ct", "Dr", "Pl", "Way")
QUARTERS = ("N", "NE", "E", "SE", "S", "SW", "W", "NW", None)
SCHOOLS = ("Brookside", "Cascade", "Evergreen", "Franklin", "Lakeview", "Meadowlark", "Rainier", "Sunset")
FIRMS = (
    "Anchor",
    "Beacon",
    "Compass Rose",
    "Driftwood",
    "Everline",
    "Foothill",
    "Granite",
    "Harbor",
    "Ironwood",
    "Juniper",
)
FIRM_KINDS = ("Realty", "Properties", "Homes & Land", "Real Estate Group", "Brokers")
REMARKS = (
    "Light from three sides.",
    "The kitchen was made new last year.",
    "A short walk to shops, school and park.",
    "Seller's lead time is flexible.",
    "Room for a garden & a workshop.",
    "Bring your plans.",
    "Views of the lake on clear days.",
)
ASSOCIATIONS = ("Sound Association of REALTORS", "Valley Board", "Coastal MLS")
LANGUAGES = ("English", "Spanish", "Mandarin", "Vietnamese", "Tagalog", "Norwegian")
DESIGNATIONS = ("CRS", "GRI", "ABR", "SRES")
