"""The page and its plots are written from the results alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench import arms
from bench import results as kept
from bench.figures import figures
from bench.report import BEGIN, END, ReportError, between_marks, report
from tests.bench.made import EVERYONE, results

if TYPE_CHECKING:
    from pathlib import Path

PLOTS = ["clients.svg", "depth.svg", "distribution.svg", "processor.svg", "walks.svg"]


def test_results_come_back_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "performance" / "results.json"
    found = results(EVERYONE)
    kept.write(found, file)
    once = kept.read(file)
    kept.write(once, file)
    assert kept.read(file) == once
    assert once.environment == found.environment
    assert once.groups["latency"].keys() == found.groups["latency"].keys()
    assert [path.name for path in file.parent.iterdir()] == ["results.json"]


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    text = f"# Title\n\nbefore\n\n{BEGIN}\nold\n{END}\n\nafter\n"
    once = between_marks(text, "new")
    assert once == f"# Title\n\nbefore\n\n{BEGIN}\n\nnew\n\n{END}\n\nafter\n"
    assert between_marks(once, "new") == once


@pytest.mark.parametrize("text", ["", BEGIN, END, f"{END} {BEGIN}"])
def test_a_page_without_its_marks_is_not_touched(text: str, tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text(text, encoding="utf-8")
    with pytest.raises(ReportError):
        report(results(EVERYONE), tmp_path)
    assert page.read_text(encoding="utf-8") == text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of documents with a report of everything, written twice."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "performance.md").write_text(f"# Ours\n\n{BEGIN}\n{END}\n\nThe end.\n", encoding="utf-8")
    report(results(EVERYONE), folder)
    once = {path.name: path.read_bytes() for path in folder.rglob("*.*")}
    report(results(EVERYONE), folder)
    assert once == {path.name: path.read_bytes() for path in folder.rglob("*.*")}
    return folder


def _row(text: str, begin: str) -> list[str]:
    [row] = [line for line in text.splitlines() if line.startswith(f"| {begin} |")]
    return [cell.strip() for cell in row.strip("|").split("|")][1:]


def test_the_page_holds_every_figure_and_every_arm(folder: Path) -> None:
    text = (folder / "performance.md").read_text(encoding="utf-8")
    aim, measured, verdict = _row(text, "page, 1 client: service / pass-through, time")
    assert (aim, measured[:4], verdict) == ("≤ 1.07", "1.09", "**missed**")
    aim, measured, verdict = _row(text, "memory of a worker above rest, 64 walks / pages in flight")
    assert (aim, measured, verdict) == ("≤ 3.00", "2.00", "reached")
    assert _row(text, "pages a second, 64 clients: 2 workers / 1 worker")[::2] == ["reported", ""]
    assert "1,000 listings, 600 of them of the largest company" in text
    assert {answers for answers in EVERYONE if f"\n| {answers} |" not in text} == set()
    assert [figure.name for figure in figures(results(EVERYONE)) if f"\n| {figure.name} |" not in text] == []


def test_the_page_shows_every_plot_and_none_carries_a_date(folder: Path) -> None:
    text = (folder / "performance.md").read_text(encoding="utf-8")
    assert sorted(path.name for path in (folder / "performance").iterdir()) == PLOTS
    assert [name for name in PLOTS if f"(performance/{name})" not in text] == []
    assert [name for name in PLOTS if b"<dc:date>" in (folder / "performance" / name).read_bytes()] == []


def test_the_text_round_the_results_stays(folder: Path) -> None:
    text = (folder / "performance.md").read_text(encoding="utf-8")
    assert text.startswith(f"# Ours\n\n{BEGIN}\n\nMeasured on 2026-01-02")
    assert text.endswith(f"\n{END}\n\nThe end.\n")


def test_what_is_absent_is_told_and_not_drawn(tmp_path: Path) -> None:
    found = results({arms.SERVICE: 12.0})
    found.absent["latency: service, page, at first, 1 clients, zstd"] = "asked for zstd, it is answered as identity"
    found.walks.clear()
    found.memory = None
    report(found, tmp_path)
    text = (tmp_path / "performance.md").read_text(encoding="utf-8")
    assert "- latency: service, page, at first, 1 clients, zstd: asked for zstd, it is answered as identity" in text
    assert "| page, 1 client: service / pass-through, time | ≤ 1.07 |  | not measured |" in text
    assert not (tmp_path / "performance" / "walks.svg").exists()
    assert "walks.svg" not in text
