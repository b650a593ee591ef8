"""The walks of the suite: every company, both feeds, page sizes and forms mixed."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle, islice
from typing import TYPE_CHECKING

from tests.chaos.truth import Walk
from tests.contract.world import PARENT

if TYPE_CHECKING:
    from tests.chaos.truth import Truth

_SIZES = (7, 20, 50, 3, 200)


def walks(truth: Truth, count: int) -> list[Walk]:
    """Return so many walks; the first eleven already have every feed, form and kind of scope."""
    listings = [
        Walk(company=company, market_status=("all", "all", "on-market")[number % 3], page_size=size)
        for number, (company, size) in enumerate(zip(truth.companies(), cycle(_SIZES), strict=False))
    ]
    large, *_ = sorted(listings, key=lambda walk: -len(truth.expected(walk).ids))
    special = [
        replace(large, market_status="all", underscored=True, page_size=50),
        replace(large, market_status="all", brief=True, page_size=100),
        Walk(path="/sold_listings", page_size=50),
        Walk(path="/sold_listings", parent=PARENT, page_size=7),
        Walk(path="/sold_listings", parent=PARENT, brief=True, underscored=True, page_size=20),
        Walk(path="/sold_listings", company=large.company, underscored=True, page_size=20),
    ]
    return list(islice(cycle([*_mixed(listings, special)]), count))


def _mixed(first: list[Walk], second: list[Walk]) -> list[Walk]:
    """Return both lists as one, taking turns."""
    pairs = [walk for pair in zip(first, second, strict=False) for walk in pair]
    return pairs + first[len(second) :] + second[len(first) :]
