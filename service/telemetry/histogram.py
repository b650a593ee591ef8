"""A histogram of plain numbers: adding a value costs one binary search and two additions."""

from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate
from math import inf

# Seconds: the range of page latencies, up to the longest reasonable deadline.
REQUEST_BOUNDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# Seconds of event loop lag: tens of milliseconds are harmful.
LAG_BOUNDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Histogram:
    """The number of values per bucket, and their sum."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: tuple[float, ...] = REQUEST_BOUNDS) -> None:
        """Count in buckets with these ascending upper bounds, and in one for larger values."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Add one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    @property
    def counts(self) -> dict[float, int]:
        """The number of values in each bucket, by upper bound."""
        return dict(zip((*self._bounds, inf), self._counts, strict=True))

    def buckets(self) -> list[tuple[str, float]]:
        """Return the cumulative counts by upper bound, in the format of Prometheus."""
        names = [*map(str, self._bounds), "+Inf"]
        return list(zip(names, map(float, accumulate(self._counts)), strict=True))


def quantile(counts: Mapping[float, int], share: float) -> float | None:
    """Estimate a quantile, such as 0.99, from counts by upper bound; None without values.

    Interpolates linearly within a bucket, like Prometheus; beyond the last bound it returns that bound.
    """
    rank, below, lower = share * sum(counts.values()), 0, 0.0
    for upper, count in sorted(counts.items()):
        if count and below + count >= rank:
            return lower if upper == inf else lower + (upper - lower) * (rank - below) / count
        below, lower = below + count, upper
    return None
