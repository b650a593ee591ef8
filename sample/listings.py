"""The lines of listings.ndjson and sold_listings.ndjson.

Listings are properties on and off the market. Sold listings are the county's sales, moved in time so that the newest
was yesterday.
"""

import datetime as dt
from collections.abc import Iterable, Iterator
from random import Random

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
    generate_open_houses,
    load_property_types,
    open_house_times,
)
from sample.staff import SampleStaff

ON_MARKET = frozenset({"Active", "Pending", "Contingent"})
_OFF_MARKET = {"Expired": 5, "Canceled": 3, "Withdrawn": 3, "TempOffMarket": 2, "Sold": 1}
_STATUSES = weighted_list({"Active": 62, "Pending": 14, "Contingent": 6, "ComingSoon": 4, **_OFF_MARKET})
_COMMISSIONS = (("percent", "2.5"), ("percent", "3.0"), ("percent", "2.25"), ("flat", "7500"), (None, None))


def listing_lines(
    staff: SampleStaff, homes: PropertyFields, sales: Iterable[HouseSale], seed: int, clock: SampleClock
) -> Iterator[bytes]:
    chance = seeded_random(seed, "listings")
    kinds = weighted_list({kind: kind.share for kind in load_property_types()})
    for position, sale in enumerate(sales):
        first = staff.is_first_of_company(position)
        house, kind = staff.company_for(position, chance), pick(chance, kinds)
        status = "Active" if first else pick(chance, _STATUSES)
        price = int(sale.price * kind.price)
        updated = clock.recent(chance) if first else clock.last_changed(chance)
        record = blank_record("Listing") | homes.generate(sale, kind, price, chance)
        identifier, own = uuid(chance), chance.random() < 0.02
        commission, value = pick(chance, _COMMISSIONS)
        record |= {
            "ListingID": f"{'AG' if own else 'SM'}{position + 1:08d}",
            "PlatformListingId": identifier,
            "AgentCreatedListing": own,
            "ListingURL": f"https://www.{house.company.domain}/listings/{identifier}",
            "ListPrice": price,
            "NewConstructionYN": kind.rooms and sale.year_built >= 2014,
            "BuyerCommissionType": commission,
            "BuyerCommissionValue": value,
        }
        record |= house.listing_agent_fields(house.active_agents if status in ON_MARKET else house.agents, chance)
        record |= _status_and_dates(status, updated, chance, clock)
        extras: dict[str, object] = {"property_type_id": kind.id}
        if chance.random() < 0.1:
            record["SharedPartnerData"] = {
                "attribute_1": f"segment-{between(chance, 1, 9)}",
                "attribute_2": pick(chance, ("gold", "silver", "bronze")),
            }
            extras["shared_partner_data_updated_at"] = format_timestamp(clock.last_changed(chance))
        if record["OpenHouse"] and updated % 2:  # others have that of their office
            extras["property_time_zone"] = "America/Los_Angeles"
        if updated % 5 == 0:  # others follow from the changes that the indexer sees
            extras["history"] = {"OriginalListPrice": price + 10_000, "PreviousListPrice": price + 10_000}
        yield envelope_line(house.company.key, updated, record, extras)


def _status_and_dates(status: str, updated: int, chance: Random, clock: SampleClock) -> dict[str, object]:
    """Return status and dates: put on the market, status changed, touched last, in this order."""
    on_market = status in ON_MARKET
    changed = updated - int(chance.random() * 3 * DAY)
    listed = changed - int(chance.random() ** 2 * 120 * DAY)
    ended = clock.now if on_market else changed
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
        "OpenHouse": generate_open_houses(chance, clock.now) if showings else [],
    }


# The file runs dry here: only 139 of its 21,613 sales are later. They are laid over the week that ends here.
_LAST_FULL_DAY = dt.date(2015, 5, 8)
_TOWNHOUSE_LOT = 2_000  # square feet; smaller lots of the county are townhouses


def sold_listing_lines(
    staff: SampleStaff, homes: PropertyFields, sales: Iterable[HouseSale], seed: int, clock: SampleClock
) -> Iterator[bytes]:
    chance = seeded_random(seed, "sold listings")
    kinds = {kind.name: kind for kind in load_property_types()}
    yesterday = clock.now // DAY * DAY - DAY
    for position, sale in enumerate(sales):
        house = staff.company_for(position, chance)
        kind = kinds["Townhouse" if sale.lot_area < _TOWNHOUSE_LOT else "Residential"]
        behind = (_LAST_FULL_DAY - sale.sold).days
        if staff.is_first_of_company(position):
            behind = position % 6
        sold = yesterday - (behind if behind >= 0 else -behind % 7) * DAY
        updated = min(clock.latest, sold + int(chance.random() * 30 * HOUR))
        record = blank_record("SoldListing") | homes.generate(sale, kind, sale.price, chance)
        identifier, days = uuid(chance), between(chance, 3, 90)
        listed = sold - (days + between(chance, 20, 45)) * DAY  # a contract takes weeks to close
        record |= {
            "ListingID": f"SO{position + 1:08d}",
            "PlatformListingId": identifier,
            "AgentCreatedListing": False,
            "ListingURL": f"https://www.{house.company.domain}/sold/{identifier}",
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
        record |= house.listing_agent_fields(house.agents, chance)
        roll = chance.random()  # some buyers have no agent, half of them one of the same company
        if roll >= 0.15:
            agents = house.agents if roll < 0.65 else staff.random_company(chance).agents
            record |= pick(chance, agents).buyer_side
        yield envelope_line(house.company.key, updated, record)
