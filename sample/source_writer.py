"""Writes a whole source directory of any size in bounded memory."""

import datetime as dt
from collections.abc import Iterable, Iterator
from pathlib import Path

from mappings import AGENT, COMPANY, LISTING, OFFICE, RESOURCES, SOLD_LISTING, TEAM, Resource
from sample.agent_records import agent_lines
from sample.company_staff import SampleStaff
from sample.declared import declared_lines
from sample.house_sales import HouseSale, cycle_sales, read_sales
from sample.listing_generator import ListingGenerator
from sample.output_directory import README, SampleError, staged_directory, write_lines
from sample.property_fields import PropertyFields
from sample.sample_clock import SampleClock
from sample.sample_companies import company_lines
from sample.sample_offices import office_lines
from sample.sample_teams import team_lines
from sample.seeded_random import seeded_random
from sample.sold_listing_generator import SoldListingGenerator
from sample.source_summary import SourceSummary, WriteProgress, readme


def write_source(
    directory: Path,
    listings: int,
    seed: int = 7,
    now: dt.datetime | None = None,
    on_progress: WriteProgress | None = None,
) -> SourceSummary:
    """Write a source directory with `listings` listings and about half as many sold ones; replaces an earlier sample.

    The same arguments give the same bytes; without `now` the clocks are relative to the present.
    Raises SampleError, and leaves the directory as it was, where it cannot be written.
    """
    if listings < 1:
        raise SampleError(f"listings must be at least 1, but is {listings}.")
    clock = SampleClock.at(now)
    with staged_directory(directory) as draft:
        generated = _generated(listings, seed, clock)
        counts = {
            resource.alias: write_lines(draft / f"{resource.alias}.ndjson", lines, on_progress)
            for resource, lines in generated.items()
        }
        summary = SourceSummary(directory, seed, counts)
        (draft / README).write_text(readme(summary, clock), encoding="utf-8")
    return summary


def sold_count(listings: int) -> int:
    """Return how many sold listings go with this number of listings."""
    return max(1, listings // 2)


def _generated(listings: int, seed: int, clock: SampleClock) -> dict[Resource, Iterable[bytes]]:
    """Return the lines of each resource, made while they are read."""
    cast = SampleStaff(listings, seed, clock)
    special: dict[Resource, Iterable[bytes]] = {
        COMPANY: company_lines(seed, clock),
        OFFICE: office_lines(cast.offices, seed, clock),
        AGENT: agent_lines(cast.agents, seed, clock),
        TEAM: team_lines(cast.teams, seed, clock),
        **_properties(cast, listings, seed, clock),
    }
    return {
        resource: special[resource] if resource in special else declared_lines(resource, seed, clock)
        for resource in RESOURCES
    }


def _properties(cast: SampleStaff, listings: int, seed: int, clock: SampleClock) -> dict[Resource, Iterator[bytes]]:
    """Return the lines of both kinds of listings: sold listings use the first sales, the others those after them."""
    homes = PropertyFields(seed, clock.year - 1)
    sales = _shuffled_sales(seed)
    sold = sold_count(listings)
    for_sale = cycle_sales(sales, seeded_random(seed, "changed listings"), skip=sold)
    of_old = cycle_sales(sales, seeded_random(seed, "changed sales"))
    return {
        LISTING: ListingGenerator(cast, homes, seed, clock).lines(for_sale, listings),
        SOLD_LISTING: SoldListingGenerator(cast, homes, seed, clock).lines(of_old, sold),
    }


def _shuffled_sales(seed: int) -> list[HouseSale]:
    sales = read_sales()
    seeded_random(seed, "sales").shuffle(sales)
    return sales
