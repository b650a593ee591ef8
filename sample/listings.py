"""The lines of listings.ndjson and sold_listings.ndjson.

Listings are properties on and off the market. Sold listings are the county's sales, moved in time so that the newest
was yesterday.
"""

import datetime as dt
from collections.abc import Iterable, Iterator

from sample.ingredients import (
    DAY,
    HOUR,
    MINUTE,
    SampleClock,
    between,
    blank_record,
    envelope_line,
    format_date,
    format_timestamp,
    pick,
    seeded_random,
    uuid,
    weighted_list,
)
from sample.properties import (
    HouseSale,
    PropertyFields,
    PropertyType,
    generate_open_houses,
    load_property_types,
    open_house_times,
)
from sample.staff import CompanyStaff, SampleStaff

ON_MARKET = frozenset({"Active", "Pending", "Contingent"})
_OFF_MARKET = {"Expired": 5, "Canceled": 3, "Withdrawn": 3, "TempOffMarket": 2, "Sold": 1}
_STATUSES = weighted_list({"Active": 62, "Pending": 14, "Contingent": 6, "ComingSoon": 4, **_OFF_MARKET})
_COMMISSIONS = (("percent", "2.5"), ("percent", "3.0"), ("percent", "2.25"), ("flat", "7500"), (None, None))


class ListingGenerator:
    def __init__(self, staff: SampleStaff, homes: PropertyFields, seed: int, clock: SampleClock) -> None:
        self._staff, self._homes, self._clock = staff, homes, clock
        self._dice = seeded_random(seed, "listings")
        kinds = {kind.id: kind for kind in load_property_types()}
        self._kinds = [kinds[number] for number in weighted_list({kind.id: kind.share for kind in kinds.values()})]

    def lines(self, sales: Iterable[HouseSale], count: int) -> Iterator[bytes]:
        for position, sale in zip(range(count), sales, strict=False):
            yield self._line(position, sale)

    def _line(self, position: int, sale: HouseSale) -> bytes:
        chance, first = self._dice, self._staff.is_first_of_company(position)
        house, kind = self._staff.company_for(position, chance), pick(chance, self._kinds)
        status = "Active" if first else pick(chance, _STATUSES)
        price = int(sale.price * kind.price)
        updated = self._clock.recent(chance) if first else self._clock.last_changed(chance)
        record = blank_record("Listing")
        record |= self._homes.generate(sale, kind, price, chance)
        record |= self._identity(position, house)
        record |= self._price_and_terms(price, new=kind.rooms and sale.year_built >= 2014)
        record |= house.listing_agent_fields(house.active_agents if status in ON_MARKET else house.agents, chance)
        record |= self._status_and_dates(status, updated)
        return envelope_line(house.company.key, updated, record, self._extras(kind, record))

    def _identity(self, position: int, house: CompanyStaff) -> dict[str, object]:
        chance = self._dice
        identifier, own = uuid(chance), chance.random() < 0.02
        return {
            "ListingID": f"{'AG' if own else 'SM'}{position + 1:08d}",
            "PlatformListingId": identifier,
            "AgentCreatedListing": own,
            "ListingURL": f"https://www.{house.company.domain}/listings/{identifier}",
        }

    def _price_and_terms(self, price: int, *, new: bool) -> dict[str, object]:
        commission, value = pick(self._dice, _COMMISSIONS)
        return {
            "ListPrice": price,
            "NewConstructionYN": new,
            "BuyerCommissionType": commission,
            "BuyerCommissionValue": value,
        }

    def _status_and_dates(self, status: str, updated: int) -> dict[str, object]:
        """Return status and dates: put on the market, status changed, touched last, in this order."""
        chance, on_market = self._dice, status in ON_MARKET
        changed = updated - int(chance.random() * 3 * DAY)
        listed = changed - int(chance.random() ** 2 * 120 * DAY)
        ended = self._clock.now if on_market else changed
        showings = status == "Active" and chance.random() < 0.25
        return {
            "ModificationTimestamp": format_timestamp(updated),
            "StatusChangeDate": format_date(changed) if on_market else None,
            "DaysOnMarket": 0 if status == "ComingSoon" else (ended - listed) // DAY,
            "ListingContractDate": format_date(listed),
            "CreatedDate": format_date(listed),
            "OnMarket": on_market,
            "Status": status,
            "ImagesLastModified": format_date(between(chance, listed, updated)),
            "VendorModificationTimestamp": format_timestamp(updated - between(chance, 1 * MINUTE, 6 * HOUR)),
            "OpenHouse": generate_open_houses(chance, self._clock.now) if showings else [],
        }

    def _extras(self, kind: PropertyType, record: dict[str, object]) -> dict[str, object]:
        chance = self._dice
        extras: dict[str, object] = {"property_type_id": kind.id}
        if chance.random() < 0.1:
            record["SharedPartnerData"] = {
                "attribute_1": f"segment-{between(chance, 1, 9)}",
                "attribute_2": pick(chance, ("gold", "silver", "bronze")),
            }
            extras["shared_partner_data_updated_at"] = format_timestamp(self._clock.last_changed(chance))
        return extras


# The file runs dry here: only 139 of its 21,613 sales are later. They are laid over the week that ends here.
_LAST_FULL_DAY = dt.date(2015, 5, 8)
_TOWNHOUSE_LOT = 2_000  # square feet; smaller lots of the county are townhouses


class SoldListingGenerator:
    def __init__(self, staff: SampleStaff, homes: PropertyFields, seed: int, clock: SampleClock) -> None:
        self._staff, self._homes, self._clock = staff, homes, clock
        self._dice = seeded_random(seed, "sold listings")
        self._kinds = {kind.name: kind for kind in load_property_types()}
        self._yesterday = clock.now // DAY * DAY - DAY

    def lines(self, sales: Iterable[HouseSale], count: int) -> Iterator[bytes]:
        for position, sale in zip(range(count), sales, strict=False):
            yield self._line(position, sale)

    def _line(self, position: int, sale: HouseSale) -> bytes:
        chance = self._dice
        house = self._staff.company_for(position, chance)
        kind = self._kinds["Townhouse" if sale.lot_area < _TOWNHOUSE_LOT else "Residential"]
        sold = self._yesterday - position % 6 * DAY if self._staff.is_first_of_company(position) else self._sold(sale)
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
        agents = house.agents if roll < 0.65 else self._staff.random_company(self._dice).agents
        return pick(self._dice, agents).buyer_side
