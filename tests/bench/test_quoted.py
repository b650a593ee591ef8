"""Every figure of performance in the documentation is one of `docs/performance/results.json`."""

import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from bench.quoted import readme_lines, slope_table, slopes
from bench.report import BEGIN, END, between_marks, tables
from bench.results import Results, read
from brokerage.size import SLOPES

_ROOT = Path(__file__).parents[2]
_PAGES: dict[str, Callable[[Results], str]] = {
    "README.md": readme_lines,
    "docs/performance.md": tables,
    "docs/sizing.md": slope_table,
}
_FIGURE = re.compile(r"[\d.,]+ (?:ms|µs|GB/s|MB/s|(?:listings|pages|records|rows|shows) (?:a|per) second|times as)\b")


@pytest.fixture(scope="module")
def found() -> Results:
    return read(_ROOT / "docs" / "performance" / "results.json")


@pytest.mark.parametrize("page", _PAGES)
def test_a_page_says_what_was_measured(found: Results, page: str) -> None:
    text = (_ROOT / page).read_text(encoding="utf-8")
    assert between_marks(text, _PAGES[page](found)) == text


@pytest.mark.parametrize("page", _PAGES)
def test_no_figure_is_written_by_hand(page: str) -> None:
    text = (_ROOT / page).read_text(encoding="utf-8")
    by_hand = text.partition(BEGIN)[0] + text.partition(END)[2]
    assert _FIGURE.findall(by_hand) == []


def test_sizes_follow_from_what_was_measured(found: Results) -> None:
    assert slopes(found) == asdict(SLOPES)
