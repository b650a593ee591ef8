"""Medians with their spread, and ratios of medians."""

import statistics
from collections.abc import Sequence

import msgspec


class Spread(msgspec.Struct, frozen=True):
    """A median between its quarter points."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Return the median and the quarter points; one value is all three."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value at a share from 0 to 1, interpolated linearly between two values."""
    ordered = sorted(values)
    below, rest = divmod(share * (len(ordered) - 1), 1)
    low, high = ordered[int(below)], ordered[min(int(below) + 1, len(ordered) - 1)]
    return low + (high - low) * rest


def ratio(upper: Sequence[float], lower: Sequence[float]) -> Spread:
    """Return the ratio of two medians, with the quarter points of the ratios round by round.

    Both must come from the same rounds, in the same order.
    """
    by_round = spread([one / other for one, other in zip(upper, lower, strict=True)])
    return Spread(statistics.median(upper) / statistics.median(lower), by_round.low, by_round.high)
