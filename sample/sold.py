"""The lines of sold_listings.ndjson: the county's sales, moved in time so that the newest was yesterday."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from sample.clock import DAY, HOUR, Clock, day, iso
from sample.dice import between, dice, pick, uuid
from sample.envelope import line
from sample.homes import Homes, property_types
from sample.media import open_house_times
from sample.tables import blank

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sample.cast import Cast, House
    from sample.sales import Sale

# The file runs dry here: only 139 of its 21,613 sales are later. They are laid over the week that ends here.
_LAST_FULL_DAY = dt.date(2015, 5, 8)
_TOWNHOUSE_LOT = 2_000  # square feet; smaller lots of the county are townhouses


class SoldListings:
    """Makes sold listings one by one; the state is the dice."""

    def __init__(self, cast: Cast, homes: Homes, seed: int, clock: Clock) -> None:
        """Take what the sold listings refer to."""
        self._cast, self._homes, self._clock = cast, homes, clock
        self._dice = dice(seed, "sold listings")
        self._kinds = {kind.name: kind for kind in property_types()}
        self._yesterday = clock.now // DAY * DAY - DAY

    def lines(self, sales: Iterable[Sale], count: int) -> Iterator[bytes]:
        """Yield the lines of `count` sold listings."""
        for position, sale in zip(range(count), sales, strict=False):
            yield self._line(position, sale)

    def _line(self, position: int, sale: Sale) -> bytes:
        chance = self._dice
        house = self._cast.house(position, chance)
        kind = self._kinds["Townhouse" if sale.lot_area < _TOWNHOUSE_LOT else "Residential"]
        sold = self._yesterday - position % 6 * DAY if self._cast.is_first(position) else self._sold(sale)
        updated = min(self._clock.latest, sold + int(chance.random() * 30 * HOUR))
        record = blank("SoldListing")
        record |= self._homes.home(sale, kind, sale.price, chance)
        record |= self._identity(position, house)
        record |= self._story(sale, sold, updated)
        record |= house.sellers(house.agents, chance)
        record |= self._buyer(house)
        return line(house.company.key, updated, record)

    def _sold(self, sale: Sale) -> int:
        """Return the first moment of the day of sale in the demo's time."""
        behind = (_LAST_FULL_DAY - sale.sold).days
        return self._yesterday - (behind if behind >= 0 else -behind % 7) * DAY

    def _identity(self, position: int, house: House) -> dict[str, object]:
        identifier = uuid(self._dice)
        return {
            "ListingID": f"SO{position + 1:08d}",
            "PlatformListingId": identifier,
            "AgentCreatedListing": False,
            "ListingURL": f"https://www.{house.company.domain}/sold/{identifier}",
        }

    def _story(self, sale: Sale, sold: int, updated: int) -> dict[str, object]:
        chance = self._dice
        days = between(chance, 3, 90)
        listed = sold - (days + between(chance, 20, 45)) * DAY  # a contract takes weeks to close
        return {
            "ModificationTimestamp": iso(updated),
            "DaysOnMarket": days,
            "ListingContractDate": day(listed),
            "CreatedDate": day(listed),
            "ListPrice": int(sale.price * (0.95 + 0.13 * chance.random())) // 100 * 100,
            "OnMarket": False,
            "Status": "Sold",
            "ImagesLastModified": day(listed),
            "SoldDate": day(sold),
            "SoldPrice": sale.price,
            "OpenHouse": [open_house_times(chance, listed + 5 * DAY)] if chance.random() < 0.1 else [],
        }

    def _buyer(self, house: House) -> dict[str, object]:
        """Return the buyer's side: half the time the same company, some buyers have no agent."""
        roll = self._dice.random()
        if roll < 0.15:
            return {}
        agents = house.agents if roll < 0.65 else self._cast.any_house(self._dice).agents
        return pick(self._dice, agents).buyer_side
