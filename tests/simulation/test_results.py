"""The page shows new and earlier results, and a violation sets the exit code."""

from pathlib import Path

import pytest

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


def test_the_page_has_a_row_for_each_scenario_in_order_and_keeps_its_text(page: Path) -> None:
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
    assert "| the fault second | how | so |" in text
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
