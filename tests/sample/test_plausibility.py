"""The data is plausible: default windows show something, dates agree, prices and places are the county's."""

import datetime as dt
import json
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sample import write_source
from sample.ingredients import SampleClock, seeded_random
from sample.properties import cycle_sales, read_sales
from sample.staff import SampleStaff, agent_lines
from tests.sample.conftest import Source

WEEK = dt.timedelta(days=7)


def updated(envelope: dict[str, Any]) -> dt.datetime:
    """Return the moment of the last change."""
    return dt.datetime.fromisoformat(envelope["updated_at"])


def recent_share(envelopes: list[dict[str, Any]], now: dt.datetime) -> float:
    """Return which part was updated in the last seven days."""
    return sum(updated(envelope) > now - WEEK for envelope in envelopes) / len(envelopes)


def test_three_in_ten_listings_were_updated_within_the_default_window(source: Source, now: dt.datetime) -> None:
    assert recent_share(source["listings"], now) == pytest.approx(0.3, abs=0.03)


def test_three_in_ten_agents_were_updated_within_the_default_window(now: dt.datetime) -> None:
    clock = SampleClock.at(now)
    envelopes = [json.loads(line) for line in agent_lines(SampleStaff(200_000, 7, clock).agents, 7, clock)]
    working = [envelope for envelope in envelopes if "deactivated_at" not in envelope]
    assert len(envelopes) == pytest.approx(1000, abs=10)
    assert recent_share(working, now) == pytest.approx(0.3, abs=0.04)


class LowestRandom(Random):
    """Chance that always falls as low as it can."""

    def random(self) -> float:
        """Return the least number."""
        return 0.0


def test_nothing_was_updated_later_than_a_minute_before_now(now: dt.datetime) -> None:
    assert SampleClock.at(now).recent(LowestRandom()) == int(now.timestamp() * 1000) - 60_000


def test_the_window_is_filled_to_the_minute_before_now(source: Source, now: dt.datetime) -> None:
    newest = max(updated(envelope) for envelopes in source.values() for envelope in envelopes)
    oldest = min(updated(envelope) for envelope in source["listings"])
    assert now - dt.timedelta(hours=2) < newest <= now - dt.timedelta(minutes=1)
    assert now - dt.timedelta(days=731) < oldest < now - dt.timedelta(days=600)


@pytest.mark.parametrize("alias", ["listings", "sold_listings"])
def test_every_company_has_something_in_the_default_window(source: Source, now: dt.datetime, alias: str) -> None:
    everyone = {company["record"]["platform_company_id"] for company in source["companies"]}
    shown = {
        envelope["platform_company_id"] for envelope in source[alias] if is_shown(envelope["record"], envelope, now)
    }
    assert shown == everyone


def test_even_a_handful_of_listings_shows_something_of_every_company(tmp_path: Path, now: dt.datetime) -> None:
    write_source(tmp_path, 16, now=now)
    for name in ("listings", "sold_listings"):
        envelopes = [json.loads(line) for line in (tmp_path / f"{name}.ndjson").read_bytes().splitlines()]
        shown = {item["platform_company_id"] for item in envelopes if is_shown(item["record"], item, now)}
        assert len(shown) == 8


def is_shown(record: dict[str, Any], envelope: dict[str, Any], now: dt.datetime) -> bool:
    """Whether the record's index gives it when asked without times."""
    if record["Status"] == "Sold" and "SoldDate" in record:
        return dt.date.fromisoformat(record["SoldDate"]) > (now - WEEK).date()
    return bool(record["OnMarket"]) and updated(envelope) > now - WEEK


def test_a_tenth_of_the_listings_has_partner_data_with_a_clock_of_its_own(source: Source, now: dt.datetime) -> None:
    shared = [envelope for envelope in source["listings"] if envelope["record"]["SharedPartnerData"]]
    clocks = [dt.datetime.fromisoformat(envelope["shared_partner_data_updated_at"]) for envelope in shared]
    assert len(shared) / len(source["listings"]) == pytest.approx(0.1, abs=0.02)
    assert any(clock > now - WEEK > updated(envelope) for clock, envelope in zip(clocks, shared, strict=True))


@pytest.mark.parametrize("alias", ["agents", "offices"])
def test_some_were_deactivated_lately_and_some_long_ago(source: Source, now: dt.datetime, alias: str) -> None:
    gone = [dt.datetime.fromisoformat(item["deactivated_at"]) for item in source[alias] if "deactivated_at" in item]
    assert 0 < sum(moment > now - WEEK for moment in gone) < len(gone) < len(source[alias]) / 2


def test_a_deactivated_agent_says_so_in_its_record(source: Source) -> None:
    for envelope in source["agents"]:
        moment = envelope["record"]["deactivated_timestamp"]
        expected = int(updated(envelope).timestamp()) if "deactivated_at" in envelope else None
        assert moment == expected


def test_most_teams_are_active(source: Source) -> None:
    active = sum(envelope["record"]["active"] for envelope in source["teams"])
    assert len(source["teams"]) / 2 < active < len(source["teams"])


def test_the_dates_of_a_listing_agree_with_each_other(source: Source, now: dt.datetime) -> None:
    for envelope in source["listings"]:
        record = envelope["record"]
        changed = record["StatusChangeDate"] or record["ListingContractDate"]
        assert record["ListingContractDate"] <= changed <= envelope["updated_at"][:10]
        assert record["VendorModificationTimestamp"] < record["ModificationTimestamp"] == envelope["updated_at"]
        assert all(house["Date"] > now.date().isoformat() for house in record["OpenHouse"])


def test_the_newest_sale_was_yesterday_and_the_last_week_has_two_to_four_of_a_hundred(
    source: Source, now: dt.datetime
) -> None:
    sold = [dt.date.fromisoformat(envelope["record"]["SoldDate"]) for envelope in source["sold_listings"]]
    assert max(sold) == now.date() - dt.timedelta(days=1)
    assert 0.02 <= sum(day >= now.date() - WEEK for day in sold) / len(sold) <= 0.04


def test_a_sale_is_recorded_on_its_day_or_the_next(source: Source, now: dt.datetime) -> None:
    for envelope in source["sold_listings"]:
        sold = dt.datetime.fromisoformat(envelope["record"]["SoldDate"]).replace(tzinfo=dt.UTC)
        assert dt.timedelta() <= min(updated(envelope), now) - sold < dt.timedelta(days=2)


def test_sold_listings_are_the_countys_sales(source: Source) -> None:
    real = {(sale.parcel, sale.price, sale.living_area, sale.zip_code, sale.latitude) for sale in read_sales()}
    for envelope in source["sold_listings"]:
        record = envelope["record"]
        sale = (
            record["TaxParcelId"],
            record["SoldPrice"],
            record["LivingArea"],
            record["PostalCode"],
            record["Latitude"],
        )
        assert sale in real


def test_a_property_for_sale_is_not_also_among_the_sold_ones(source: Source) -> None:
    offered, sold = (
        {(envelope["record"]["TaxParcelId"], envelope["record"]["Latitude"]) for envelope in source[alias]}
        for alias in ("listings", "sold_listings")
    )
    # A few parcels were sold twice within the year, so they stand twice in the county's file.
    assert len(offered & sold) < 0.01 * len(offered)


def test_once_all_sales_were_given_they_come_again_changed_and_marked() -> None:
    sales = read_sales()
    again = next(islice(cycle_sales(sales, seeded_random(7, "test")), len(sales), None))
    assert again != sales[0]
    assert again.parcel == f"G{len(sales):09d}"
    assert 0.9 * sales[0].price < again.price < 1.1 * sales[0].price
    assert (again.zip_code, again.sold) == (sales[0].zip_code, sales[0].sold)


def test_acres_are_rounded_half_up_and_land_has_no_rooms(source: Source) -> None:
    by_parcel = {sale.parcel: sale.lot_area for sale in read_sales()}
    for envelope in source["sold_listings"]:
        record = envelope["record"]
        acres = by_parcel[record["TaxParcelId"]] / 43_560
        assert abs(record["LotSizeAcres"] - acres) <= 0.5
    land = [envelope["record"] for envelope in source["listings"] if envelope["record"]["PropertyType"] == "Land"]
    assert {(record["BedroomsTotal"], record["LivingArea"], record["YearBuilt"]) for record in land} == {(None,) * 3}
