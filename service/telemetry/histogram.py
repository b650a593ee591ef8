"""A histogram of plain numbers: a look in a sorted tuple and two additions are all that a value costs."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Seconds; around the latencies of pages, up to the longest deadline that makes sense.
REQUEST_BOUNDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# Seconds that the event loop was late: what harms begins at tens of milliseconds.
LAG_BOUNDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Histogram:
    """How many values were at most as large as each bound, and their sum."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: tuple[float, ...] = REQUEST_BOUNDS) -> None:
        """Count in buckets that end at the bounds, in rising order, and one for what is larger."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Add one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    @property
    def counts(self) -> dict[float, int]:
        """The number of values in each bucket, by its upper bound."""
        return dict(zip((*self._bounds, inf), self._counts, strict=True))

    def buckets(self) -> list[tuple[str, float]]:
        """Return the upper bound of each bucket with the number of values up to it, as Prometheus wants them."""
        names = [*map(str, self._bounds), "+Inf"]
        return list(zip(names, map(float, accumulate(self._counts)), strict=True))


def quantile(counts: Mapping[float, int], share: float) -> float | None:
    """Return the value that a share of all values is at most, as far as buckets tell; None where there are none.

    Within a bucket values are taken to lie evenly, as Prometheus does it; beyond the last bound it is that bound.
    """
    rank, below, lower = share * sum(counts.values()), 0, 0.0
    for upper, count in sorted(counts.items()):
        if count and below + count >= rank:
            return lower if upper == inf else lower + (upper - lower) * (rank - below) / count
        below, lower = below + count, upper
    return None
