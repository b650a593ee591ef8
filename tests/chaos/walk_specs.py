"""The walks of the suite: every company, both feeds, mixed page sizes and shapes."""

from dataclasses import replace
from itertools import cycle, islice

from tests.chaos.expected_pages import ExpectedFeeds, FeedWalkSpec
from tests.contract.world import PARENT

_SIZES = (7, 20, 50, 3, 200)


def mixed_walks(truth: ExpectedFeeds, count: int) -> list[FeedWalkSpec]:
    """Return this number of walks; the first eleven cover every feed, shape and kind of scope."""
    listings = [
        FeedWalkSpec(company=company, market_status=("all", "all", "on-market")[number % 3], page_size=size)
        for number, (company, size) in enumerate(zip(truth.companies(), cycle(_SIZES), strict=False))
    ]
    large, *_ = sorted(listings, key=lambda walk: -len(truth.expected(walk).ids))
    special = [
        replace(large, market_status="all", underscored=True, page_size=50),
        replace(large, market_status="all", brief=True, page_size=100),
        FeedWalkSpec(path="/sold_listings", page_size=50),
        FeedWalkSpec(path="/sold_listings", parent=PARENT, page_size=7),
        FeedWalkSpec(path="/sold_listings", parent=PARENT, brief=True, underscored=True, page_size=20),
        FeedWalkSpec(path="/sold_listings", company=large.company, underscored=True, page_size=20),
    ]
    return list(islice(cycle([*_mixed(listings, special)]), count))


def _mixed(first: list[FeedWalkSpec], second: list[FeedWalkSpec]) -> list[FeedWalkSpec]:
    """Interleave two lists."""
    pairs = [walk for pair in zip(first, second, strict=False) for walk in pair]
    return pairs + first[len(second) :] + second[len(first) :]
