"""Writes a whole source directory of any size in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sample.agent_records import agent_lines
from sample.cast import Cast
from sample.clock import Clock
from sample.companies import company_lines
from sample.dice import dice
from sample.directory import README, SampleError, drafted, write_lines
from sample.homes import Homes
from sample.listings import Listings
from sample.offices import office_lines
from sample.sales import Sale, endless, read_sales
from sample.sold import SoldListings
from sample.summary import Progress, SourceSummary, readme
from sample.teams import team_lines

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Iterator
    from pathlib import Path


def write_source(
    directory: Path,
    listings: int,
    seed: int = 7,
    now: dt.datetime | None = None,
    on_progress: Progress | None = None,
) -> SourceSummary:
    """Write a source directory with `listings` listings and about half as many sold ones; replaces an earlier sample.

    The same arguments give the same bytes; without `now` the clocks are relative to the present.
    Raises SampleError, and leaves the directory as it was, where it cannot be written.
    """
    if listings < 1:
        raise SampleError(f"listings must be at least 1, but is {listings}.")
    clock = Clock.at(now)
    with drafted(directory) as draft:
        resources = _resources(listings, seed, clock).items()
        counts = {name: write_lines(draft / f"{name}.ndjson", lines, on_progress) for name, lines in resources}
        summary = SourceSummary(directory, seed, counts)
        (draft / README).write_text(readme(summary, clock), encoding="utf-8")
    return summary


def sold_count(listings: int) -> int:
    """Return how many sold listings go with this number of listings."""
    return max(1, listings // 2)


def _resources(listings: int, seed: int, clock: Clock) -> dict[str, Iterable[bytes]]:
    """Return the lines of each file, made while they are read."""
    cast = Cast(listings, seed, clock)
    return {
        "companies": company_lines(seed, clock),
        "offices": office_lines(cast.offices, seed, clock),
        "agents": agent_lines(cast.agents, seed, clock),
        "teams": team_lines(cast.teams, seed, clock),
        **_properties(cast, listings, seed, clock),
    }


def _properties(cast: Cast, listings: int, seed: int, clock: Clock) -> dict[str, Iterator[bytes]]:
    """Return the lines of both kinds of listings: the sold ones take the first sales, the others go on behind them."""
    homes = Homes(seed, clock.year - 1)
    sales = _shuffled_sales(seed)
    sold = sold_count(listings)
    for_sale = endless(sales, dice(seed, "changed listings"), skip=sold)
    of_old = endless(sales, dice(seed, "changed sales"))
    return {
        "listings": Listings(cast, homes, seed, clock).lines(for_sale, listings),
        "sold_listings": SoldListings(cast, homes, seed, clock).lines(of_old, sold),
    }


def _shuffled_sales(seed: int) -> list[Sale]:
    sales = read_sales()
    dice(seed, "sales").shuffle(sales)
    return sales
