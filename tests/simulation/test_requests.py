"""The figures of the report follow from the requests."""

import pytest

from tests.simulation.requests import GOOD, ObservedRequest, RequestTotals


def _tally(*moments: float, failed: tuple[float, ...] = ()) -> RequestTotals:
    """Return totals that start at 0, with successes and failures at given times, each of half a second."""
    seen = [ObservedRequest(at, 0.5, GOOD, "/listings") for at in moments] + [
        ObservedRequest(at, 0.5, "503", "/listings") for at in failed
    ]
    return RequestTotals(sorted(seen), began=0.0)


def test_the_outage_is_the_longest_time_without_a_success() -> None:
    assert _tally(1, 2, 7, 8).outage == 5
    assert _tally(1, 2, failed=(3, 4, 9)).outage == 7
    assert _tally(6, 7).outage == 6


def test_requests_open_at_the_start_of_a_fault_count_with_it() -> None:
    tally = _tally(1.2, 2, 3, failed=(1.3,))
    assert [one.at for one in tally.between(1, 3)] == [2, 3]
    assert [one.at for one in tally.ended(1, 3)] == [1.2, 1.3, 2, 3]


def test_the_rate_is_the_median_of_whole_seconds() -> None:
    tally = _tally(0.1, 1.1, 1.2, 1.3, 2.1, 2.2, 2.3, failed=(0.5, 0.6))
    assert tally.median_rate(0, 3) == 3


def test_the_rate_is_regained_when_a_whole_window_has_it() -> None:
    steady = [10 + number / 10 for number in range(60)]
    tally = _tally(1, 2, 3, *steady)
    assert tally.regained(5, 9) == pytest.approx(4.8, abs=0.15)
    assert tally.regained(11, 9) == pytest.approx(0)
    assert tally.regained(5, 20) is None


def test_the_slowest_request_counts_whatever_its_outcome() -> None:
    tally = _tally(1, 2)
    tally.seen.append(ObservedRequest(20, 10.2, "504", "/listings"))
    assert (tally.slowest, tally.failures) == (10.2, {"504": 1})
