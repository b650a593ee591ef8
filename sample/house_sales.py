"""The King County house sales of 2014 and 2015: the real prices, sizes, years and places under the generated data."""

import csv
import datetime as dt
import gzip
import io
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from sample.data_files import read_data_file
from sample.seeded_random import between, pick


class HouseSale(NamedTuple):
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
    """Return all sales of the data file in its order."""
    rows = csv.DictReader(io.StringIO(gzip.decompress(read_data_file("king_county_sales.csv.gz")).decode()))
    return [_sale(row) for row in rows]


def cycle_sales(sales: Sequence[HouseSale], chance: Random, skip: int = 0) -> Iterator[HouseSale]:
    """Yield the sales one after the other from `skip` on; once all were given they come again, changed at random."""
    position = skip
    while True:
        rounds, place = divmod(position, len(sales))
        yield _vary(sales[place], chance, position) if rounds else sales[place]
        position += 1


def _sale(row: dict[str, str]) -> HouseSale:
    return HouseSale(
        parcel=row["id"].zfill(10),  # the county's parcel numbers have ten digits; the file lost leading zeros
        sold=dt.date.fromisoformat(row["date"]),
        price=int(row["price"]),
        bedrooms=int(row["bedrooms"]),
        bathrooms=float(row["bathrooms"]),
        living_area=int(row["sqft_living"]),
        lot_area=int(row["sqft_lot"]),
        floors=float(row["floors"]),
        waterfront=row["waterfront"] == "True",
        view=int(row["view"]),
        year_built=int(row["yr_built"]),
        zip_code=row["zipcode"],
        latitude=row["lat"],
        longitude=row["long"],
    )


def _vary(sale: HouseSale, chance: Random, position: int) -> HouseSale:
    """Return a sale like this one that never took place; its parcel number says so by its letter."""
    return sale._replace(
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
