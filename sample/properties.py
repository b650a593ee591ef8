"""The property of a listing or sold listing, from a house sale, a place and a property type, with invented media.

The King County house sales of 2014 and 2015 give the real prices, sizes, years and places. Image and feature sets are
encoded once and used by many listings.
"""

import csv
import datetime as dt
import gzip
import io
from collections.abc import Iterator, Sequence
from functools import cache
from random import Random

import msgspec
import orjson
from msgspec.structs import replace

from sample.ingredients import (
    DAY,
    area_fields,
    between,
    format_date,
    load_table,
    pick,
    read_data_file,
    seeded_random,
    street_address,
)

_COLUMNS = {
    "parcel": "id",
    "sold": "date",
    "living_area": "sqft_living",
    "lot_area": "sqft_lot",
    "year_built": "yr_built",
    "zip_code": "zipcode",
    "latitude": "lat",
    "longitude": "long",
}


class HouseSale(msgspec.Struct, frozen=True, gc=False, rename=_COLUMNS):
    """One sale. Areas in square feet, price in US dollars, bathrooms in quarters of a bathroom counted as fractions."""

    parcel: str
    sold: dt.date
    price: int
    bedrooms: int
    bathrooms: float
    living_area: int
    lot_area: int
    floors: float
    waterfront: bool
    view: int
    year_built: int
    zip_code: str
    latitude: str
    longitude: str


def read_sales() -> list[HouseSale]:
    rows = csv.DictReader(io.StringIO(gzip.decompress(read_data_file("king_county_sales.csv.gz")).decode()))
    # The county's parcel numbers have ten digits; the file lost leading zeros.
    return msgspec.convert([row | {"id": row["id"].zfill(10)} for row in rows], list[HouseSale], strict=False)


def cycle_sales(sales: Sequence[HouseSale], chance: Random, skip: int = 0) -> Iterator[HouseSale]:
    """Yield the sales one after the other from `skip` on; once all were given they come again, changed at random."""
    position = skip
    while True:
        rounds, place = divmod(position, len(sales))
        yield _vary(sales[place], chance, position) if rounds else sales[place]
        position += 1


def _vary(sale: HouseSale, chance: Random, position: int) -> HouseSale:
    """Return a sale like this one that never took place; its parcel number says so by its letter."""
    return replace(
        sale,
        parcel=f"G{position:09d}",
        price=int(sale.price * (0.92 + 0.16 * chance.random())),
        living_area=int(sale.living_area * (0.97 + 0.06 * chance.random())),
        lot_area=int(sale.lot_area * (0.97 + 0.06 * chance.random())),
        year_built=min(2015, sale.year_built + between(chance, -2, 2)),
        latitude=_shift(sale.latitude, chance),
        longitude=_shift(sale.longitude, chance),
    )


def _shift(degrees: str, chance: Random) -> str:
    return f"{float(degrees) + pick(chance, (-0.003, -0.002, -0.001, 0.001, 0.002, 0.003)):.4f}"


_PHOTO_SETS = 1024
_FEATURE_SETS = 256


class MediaVocabulary(msgspec.Struct, frozen=True):
    shots: tuple[tuple[str, str], ...]
    sizes: tuple[tuple[int, int], ...]
    features: dict[str, tuple[str, ...]]
    attributes: tuple[tuple[str, str], ...]
    open_house_hours: tuple[tuple[str, str], ...]
    open_house_comments: tuple[str | None, ...]


class MediaGenerator:
    def __init__(self, seed: int) -> None:
        chance = seeded_random(seed, "media")
        self.photo_sets = [_encoded(_photos(chance)) for _ in range(_PHOTO_SETS)]
        self.feature_sets = [_encoded(_features(chance)) for _ in range(_FEATURE_SETS)]
        self.attribute_sets = [_encoded(_attributes(chance)) for _ in range(32)]

    def listing_fields(self, chance: Random) -> dict[str, object]:
        """Return the members about media and features that listings and sold listings share."""
        tour = f"https://tours.example.com/{chance.getrandbits(48):012x}" if chance.random() < 0.2 else None
        return {
            "VirtualTourURL": tour,
            "PropertyFeatures": pick(chance, self.feature_sets),
            "CompanyListingAttributes": pick(chance, self.attribute_sets),
            "ListingImages": pick(chance, self.photo_sets),
        }


def generate_open_houses(chance: Random, first: int) -> list[dict[str, object]]:
    """Return one or two open houses of a listing, within ten days from the moment `first` on."""
    return [_open_house(chance, first + between(chance, 1, 10) * DAY) for _ in range(between(chance, 1, 2))]


def open_house_times(chance: Random, moment: int) -> dict[str, object]:
    """Return day and hours of an open house, all that a sold listing keeps of it."""
    start, end = pick(chance, _vocabulary().open_house_hours)
    return {"Date": format_date(moment), "StartTime": start, "EndTime": end}


@cache
def _vocabulary() -> MediaVocabulary:
    return load_table("media", MediaVocabulary)


def _open_house(chance: Random, moment: int) -> dict[str, object]:
    virtual = chance.random() < 0.2
    return open_house_times(chance, moment) | {
        "VirtualOpenHouseYN": virtual,
        "VirtualOpenHouseURL": f"https://tours.example.com/live/{chance.getrandbits(48):012x}" if virtual else None,
        "Comment": pick(chance, _vocabulary().open_house_comments),
    }


def _encoded(value: object) -> orjson.Fragment:
    return orjson.Fragment(orjson.dumps(value))


def _photos(chance: Random) -> list[dict[str, object]]:
    folder = f"https://photos.example.com/{chance.getrandbits(40):010x}"
    shots = _vocabulary().shots[: 6 + int(chance.random() ** 3 * 9)]
    return [_photo(f"{folder}/{place:02d}", shot, chance) for place, shot in enumerate(shots, 1)]


def _photo(address: str, shot: tuple[str, str], chance: Random) -> dict[str, object]:
    title, caption = shot
    width, height = pick(chance, _vocabulary().sizes)
    links = {f"{size}URL": f"{address}-{size.lower()}.jpg" for size in ("Full", "Gallery", "Raw", "Small", "Thumb")}
    return links | {
        "Title": title,
        "Caption": caption if chance.random() < 0.5 else None,
        "Description": None,
        "MimeType": "image/jpeg",
        "IsMainListingImage": address.endswith("/01"),
        "Width": width,
        "Height": height,
    }


def _features(chance: Random) -> list[dict[str, object]]:
    chosen = [name for name in _vocabulary().features if chance.random() < 0.5]
    return [_feature(name, chance) for name in chosen]


def _feature(name: str, chance: Random) -> dict[str, object]:
    known = _vocabulary().features[name]
    values = chance.sample(known, between(chance, 1, min(3, len(known))))
    return {"PropertyFeatureName": name, "PropertyFeatureValues": sorted(values)}


def _attributes(chance: Random) -> list[dict[str, object]]:
    chosen = [pair for pair in _vocabulary().attributes if chance.random() < 0.2]
    return [{"AttributeId": number, "AttributeName": name} for number, name in chosen]


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
    def __init__(self, seed: int, tax_year: int) -> None:
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
    return load_table("property_types", tuple[PropertyType, ...])


def _round_half_up(number: float) -> int:
    return int(number + 0.5)


def _site(sale: HouseSale, kind: PropertyType, chance: Random) -> dict[str, object]:
    return {
        "LotSizeAcres": _round_half_up(sale.lot_area / _SQUARE_FEET_PER_ACRE),
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
        "BathroomsTotal": _round_half_up(sale.bathrooms),
        "BedroomsTotal": sale.bedrooms,
        "GarageSpaces": between(chance, 0, 3),
        "PoolYN": chance.random() < 0.03,
        "SingleStory": sale.floors == 1,
        "LivingArea": sale.living_area,
        "YearBuilt": sale.year_built,
    }
