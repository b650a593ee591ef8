"""The lines of sold_listings.ndjson: the county's sales, moved in time so that the newest was yesterday."""

import datetime as dt
from collections.abc import Iterable, Iterator

from sample.company_staff import CompanyStaff, SampleStaff
from sample.data_files import blank_record
from sample.envelope_line import envelope_line
from sample.house_sales import HouseSale
from sample.media_generator import open_house_times
from sample.property_fields import PropertyFields, load_property_types
from sample.sample_clock import DAY, HOUR, SampleClock, format_date, format_timestamp
from sample.seeded_random import between, pick, seeded_random, uuid

# The file runs dry here: only 139 of its 21,613 sales are later. They are laid over the week that ends here.
_LAST_FULL_DAY = dt.date(2015, 5, 8)
_TOWNHOUSE_LOT = 2_000  # square feet; smaller lots of the county are townhouses


class SoldListingGenerator:
    """Makes sold listings one by one; the state is the dice."""

    def __init__(self, cast: SampleStaff, homes: PropertyFields, seed: int, clock: SampleClock) -> None:
        """Take what the sold listings refer to."""
        self._cast, self._homes, self._clock = cast, homes, clock
        self._dice = seeded_random(seed, "sold listings")
        self._kinds = {kind.name: kind for kind in load_property_types()}
        self._yesterday = clock.now // DAY * DAY - DAY

    def lines(self, sales: Iterable[HouseSale], count: int) -> Iterator[bytes]:
        """Yield the lines of `count` sold listings."""
        for position, sale in zip(range(count), sales, strict=False):
            yield self._line(position, sale)

    def _line(self, position: int, sale: HouseSale) -> bytes:
        chance = self._dice
        house = self._cast.company_for(position, chance)
        kind = self._kinds["Townhouse" if sale.lot_area < _TOWNHOUSE_LOT else "Residential"]
        sold = self._yesterday - position % 6 * DAY if self._cast.is_first_of_company(position) else self._sold(sale)
        updated = min(self._clock.latest, sold + int(chance.random() * 30 * HOUR))
        record = blank_record("SoldListing")
        record |= self._homes.generate(sale, kind, sale.price, chance)
        record |= self._identity(position, house)
        record |= self._dates_and_prices(sale, sold, updated)
        record |= house.listing_agent_fields(house.agents, chance)
        record |= self._buyer(house)
        return envelope_line(house.company.key, updated, record)

    def _sold(self, sale: HouseSale) -> int:
        """Return the first moment of the day of sale in the demo's time."""
        behind = (_LAST_FULL_DAY - sale.sold).days
        return self._yesterday - (behind if behind >= 0 else -behind % 7) * DAY

    def _identity(self, position: int, house: CompanyStaff) -> dict[str, object]:
        identifier = uuid(self._dice)
        return {
            "ListingID": f"SO{position + 1:08d}",
            "PlatformListingId": identifier,
            "AgentCreatedListing": False,
            "ListingURL": f"https://www.{house.company.domain}/sold/{identifier}",
        }

    def _dates_and_prices(self, sale: HouseSale, sold: int, updated: int) -> dict[str, object]:
        chance = self._dice
        days = between(chance, 3, 90)
        listed = sold - (days + between(chance, 20, 45)) * DAY  # a contract takes weeks to close
        return {
            "ModificationTimestamp": format_timestamp(updated),
            "DaysOnMarket": days,
            "ListingContractDate": format_date(listed),
            "CreatedDate": format_date(listed),
            "ListPrice": int(sale.price * (0.95 + 0.13 * chance.random())) // 100 * 100,
            "OnMarket": False,
            "Status": "Sold",
            "ImagesLastModified": format_date(listed),
            "SoldDate": format_date(sold),
            "SoldPrice": sale.price,
            "OpenHouse": [open_house_times(chance, listed + 5 * DAY)] if chance.random() < 0.1 else [],
        }

    def _buyer(self, house: CompanyStaff) -> dict[str, object]:
        """Return the buyer's side: half the time the same company, some buyers have no agent."""
        roll = self._dice.random()
        if roll < 0.15:
            return {}
        agents = house.agents if roll < 0.65 else self._cast.random_company(self._dice).agents
        return pick(self._dice, agents).buyer_side
