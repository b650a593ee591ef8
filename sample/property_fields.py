"""What a listing and a sold listing have in common: the property itself, from a sale, a place and a property type."""

from random import Random

import msgspec

from sample.data_files import load_table
from sample.house_sales import HouseSale
from sample.locations import area_fields, street_address
from sample.media_generator import MediaGenerator
from sample.seeded_random import between, pick, seeded_random

_SQUARE_FEET_PER_ACRE = 43_560
_TAX_RATE = 0.0094  # of the price, a year


class PropertyType(msgspec.Struct, frozen=True):
    """An entry of the legend. `rooms`: it is residential; `price` is relative to a house of the same row."""

    id: int
    name: str
    noun: str
    share: int
    rooms: bool
    price: float


class RemarkPhrases(msgspec.Struct, frozen=True):
    """Sentences that public remarks are made of; `grounds` are details of uninhabited property."""

    openings: tuple[str, ...]
    details: tuple[str, ...]
    grounds: tuple[str, ...]
    closings: tuple[str, ...]
    notice: str


class PropertyFields:
    """Makes the shared members of a record."""

    def __init__(self, seed: int, tax_year: int) -> None:
        """Read the tables and prepare what many records share."""
        self._areas = area_fields(seeded_random(seed, "areas"))
        self._remarks = load_table("remarks", RemarkPhrases)
        self._media = MediaGenerator(seed)
        self._tax_year = tax_year

    def generate(self, sale: HouseSale, kind: PropertyType, price: int, chance: Random) -> dict[str, object]:
        """Return the members that describe the property, its place and its media, in no order."""
        area = self._areas[sale.zip_code]
        rooms = _rooms(sale, chance) if kind.rooms else {}
        site = _site(sale, kind, chance) | {"TaxAnnualAmount": round(price * _TAX_RATE), "TaxYear": self._tax_year}
        return area | site | rooms | self._words(sale, kind, area["City"], chance) | self._media.listing_fields(chance)

    def _words(self, sale: HouseSale, kind: PropertyType, city: object, chance: Random) -> dict[str, object]:
        remarks = self._remarks
        opening = pick(chance, remarks.openings).format(noun=kind.noun, city=city)
        details = f"{pick(chance, remarks.details if kind.rooms else remarks.grounds)} {pick(chance, remarks.closings)}"
        bedrooms = f"{sale.bedrooms} bedroom " if kind.rooms else ""
        return {
            "PublicTitle": f"{bedrooms}{kind.name} in {city}",
            "PublicRemarks": f"{opening} {details} {remarks.notice}",
        }


def load_property_types() -> tuple[PropertyType, ...]:
    """Return the legend's entries that occur."""
    return load_table("property_types", tuple[PropertyType, ...])


def round_half_up(number: float) -> int:
    """Round to the nearest whole number, halves upwards."""
    return int(number + 0.5)


def _site(sale: HouseSale, kind: PropertyType, chance: Random) -> dict[str, object]:
    return {
        "LotSizeAcres": round_half_up(sale.lot_area / _SQUARE_FEET_PER_ACRE),
        "InternetAddressDisplayYN": chance.random() < 0.95,
        "WaterfrontYN": sale.waterfront,
        "Address": street_address(chance),
        "Latitude": sale.latitude,
        "Longitude": sale.longitude,
        "InternetEntireListingDisplayYN": chance.random() < 0.97,
        "PropertyType": kind.name,
        "ViewYN": sale.view > 0,
        "TaxParcelId": sale.parcel,
    }


def _rooms(sale: HouseSale, chance: Random) -> dict[str, object]:
    full = int(sale.bathrooms)
    partial = int(sale.bathrooms != full)
    return {
        "BathroomsFull": full,
        "BathroomsHalf": partial,
        "BathroomsTotalInteger": full + partial,
        "BathroomsTotal": round_half_up(sale.bathrooms),
        "BedroomsTotal": sale.bedrooms,
        "GarageSpaces": between(chance, 0, 3),
        "PoolYN": chance.random() < 0.03,
        "SingleStory": sale.floors == 1,
        "LivingArea": sale.living_area,
        "YearBuilt": sale.year_built,
    }
