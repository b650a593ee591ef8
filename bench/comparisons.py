"""Comparisons of what one run measured: ratios of medians, with the quarter points of the ratios round by round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import arms
from bench.spread import Spread, ratio, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.arms import Arm
    from bench.results import Measured, Results, Round

_GIGABYTE = 1e9


def times(found: Results, arm: Arm, base: Arm) -> Spread | None:
    """Compare the times of a request of one client: the medians of all of them, the spread of the rounds' medians."""
    one, other = found.find("latency", arm), found.find("latency", base)
    if one is None or other is None:
        return None
    by_round = ratio([each.p50_ms for each in one.rounds], [each.p50_ms for each in other.rounds])
    return Spread(one.latency_ms.median / other.latency_ms.median, by_round.low, by_round.high)


def tails(found: Results, arm: Arm, base: Arm) -> Spread | None:
    """Compare the 99th percentiles of all requests of one client; there is one of each, so no spread."""
    one, other = found.find("latency", arm), found.find("latency", base)
    return None if one is None or other is None else spread([one.p99_ms / other.p99_ms])


def rates(found: Results, group: str, arm: Arm, base: Arm) -> Spread | None:
    """Compare requests a second."""
    one, other = found.find(group, arm), found.find(group, base)
    if one is None or other is None:
        return None
    return ratio([each.per_second for each in one.rounds], [each.per_second for each in other.rounds])


def processor(found: Results, arm: Arm, base: Arm) -> Spread | None:
    """Compare the processor time of the answering processes for a request, among the peers.

    The system counts in 10 ms, so that only the sum over all rounds is exact enough: there is no spread.
    """
    one, other = found.find("peers", arm), found.find("peers", base)
    if one is None or other is None or not other.cpu_ms[base.answers]:
        return None
    return spread([one.cpu_ms[arm.answers] / other.cpu_ms[base.answers]])


def seconds_a_gigabyte(measured: Measured | None) -> Spread | None:
    """Return the processor seconds of the answering process for 10^9 bytes of bodies."""
    if measured is None:
        return None
    return spread([measured.cpu_ms[measured.answers] / 1000 / measured.bytes * _GIGABYTE])


def above_rest(found: Results) -> Spread | None:
    """Return what a worker holds at most above rest, for each byte of the pages in flight."""
    memory = found.memory
    if memory is None:
        return None
    in_flight = memory.clients * memory.page_bytes
    return spread([(peak - memory.idle) / in_flight for peak in memory.peaks])


def walks(found: Results, seconds: Callable[[dict[str, float]], float]) -> Spread | None:
    """Compare the service's walks to the best of the textbook ones: the one with the least median time."""
    ways = {name: [seconds(walk.seconds) for walk in walks] for name, walks in found.walks.items()}
    others = [ways[name] for name in arms.TEXTBOOK if ways.get(name)]
    if not ways.get(arms.SERVICE) or not others:
        return None
    best = min(others, key=lambda times: spread(times).median)
    return ratio(ways[arms.SERVICE], best) if len(best) == len(ways[arms.SERVICE]) else None


def least(values: Sequence[Spread | None]) -> Spread | None:
    """Return the least of the values; None where one is missing, since that one could have been it."""
    there = [value for value in values if value is not None]
    return min(there, key=lambda value: value.median) if there and len(there) == len(values) else None


def after_updates(found: Results, of: Callable[[Round], float], arm: Arm, base: Arm) -> Spread | None:
    """Compare an arm after updates to itself before, over the same of the base: rounds apart in time share no mood."""
    one, other = _after(found, of, arm), _after(found, of, base)
    return None if one is None or other is None else spread([one / other])


def _after(found: Results, of: Callable[[Round], float], arm: Arm) -> float | None:
    before, after = found.find(arms.BEFORE, arm), found.find(arms.AFTER, arm)
    if before is None or after is None:
        return None
    return ratio([of(each) for each in after.rounds], [of(each) for each in before.rounds]).median
