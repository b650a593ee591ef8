"""The page shows new and earlier results, a violation sets the exit code, and figures follow from the requests."""

from pathlib import Path

import pytest

from tests.simulation.requests import GOOD, ObservedRequest, RequestTotals
from tests.simulation.results import ChaosResults, ScenarioResult, concluded, read


def _found(name: str, **changes: object) -> ChaosResults:
    played = ChaosResults()
    whole = {"fault": f"the fault {name}", "requests": 1000, "wrong": 0, "failed": 5, "outage_seconds": 0.25}
    played.take(name, ScenarioResult(**{**whole, **changes}), 12.0)  # type: ignore[arg-type]
    return played


@pytest.fixture
def page(tmp_path: Path) -> Path:
    page = tmp_path / "reliability.md"
    page.write_text("# Before\n\n<!-- results:begin -->\n<!-- results:end -->\n\nBehind\n")
    return page


def test_the_page_has_a_row_for_each_scenario_in_order_and_keeps_its_text(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert concluded(_found("second", figures={"how": "so"}), page, ["first", "second"]) == 0
    assert concluded(_found("first"), page, ["first", "second"]) == 0
    text = page.read_text()
    assert text.startswith("# Before")
    assert text.endswith("Behind\n")
    rows = [line for line in text.splitlines() if line.startswith("| the fault")]
    assert rows[:2] == [
        "| the fault first | 1,000 | 0 | 5 (0.50 %) | 0.2 s |",
        "| the fault second | 1,000 | 0 | 5 (0.50 %) | 0.2 s |",
    ]
    assert "2 scenarios, 2,000 requests, 0 wrong responses." in text
    assert "how" not in text
    assert "the fault second: how: so\n" in capsys.readouterr().out
    assert "### Violations\n\nNone." in text


def test_a_violation_is_reported_until_a_later_run_has_none(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert concluded(_found("first", wrong=1, violations=["1 wrong answer"]), page) == 1
    assert "- first: 1 wrong answer" in page.read_text()
    assert "first: 1 wrong answer" in capsys.readouterr().out
    assert concluded(ChaosResults(), page) == 1  # written again from the existing results
    assert concluded(_found("first"), page) == 0
    assert "1 wrong answer" not in page.read_text()


def test_the_results_are_read_as_they_were_written(page: Path) -> None:
    played = _found("first", figures={"how": "so"}, violations=["v"])
    concluded(played, page)
    assert read(page.with_suffix("") / "results.json") == played


def test_without_a_page_nothing_is_written(tmp_path: Path) -> None:
    assert concluded(_found("first"), None) == 0
    assert list(tmp_path.iterdir()) == []


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
    assert [request.at for request in tally.between(1, 3)] == [2, 3]
    assert [request.at for request in tally.ended(1, 3)] == [1.2, 1.3, 2, 3]


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
