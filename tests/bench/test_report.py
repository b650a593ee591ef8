"""The page is written from the results alone."""

from pathlib import Path

import pytest

from bench import arms
from bench import results as kept
from bench.figures import figures
from bench.report import BEGIN, END, ReportError, between_marks, report
from tests.bench.made import EVERYONE, results


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


def test_only_the_text_between_the_marks_is_replaced() -> None:
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
    aim, measured, verdict = _row(text, "pages per second, 8 clients: service / same body")
    assert (aim, measured[:4], verdict) == ("≥ 0.85", "0.83", "**missed**")
    aim, measured, verdict = _row(text, "page at 97 % of the largest company / first page, time")
    assert (aim, measured[:4], verdict) == ("≤ 1.10", "1.00", "reached")
    assert _row(text, "pages per second, 64 clients: 2 workers / 1 worker")[::2] == ["reported", ""]
    assert "1,000 listings, 600 of them of the largest company" in text
    assert {answers for answers in EVERYONE if f"\n| {answers} |" not in text} == set()
    assert [figure.name for figure in figures(results(EVERYONE)) if f"\n| {figure.name} |" not in text] == []


def test_the_text_round_the_results_stays(folder: Path) -> None:
    text = (folder / "performance.md").read_text(encoding="utf-8")
    assert text.startswith(f"# Ours\n\n{BEGIN}\n\nMeasured on 2026-01-02")
    assert text.endswith(f"\n{END}\n\nThe end.\n")


def test_absent_arms_are_reported(tmp_path: Path) -> None:
    found = results({arms.SERVICE: 12.0})
    found.absent["latency: service, page, at first, 1 clients, zstd"] = "requested zstd, but the response is identity"
    found.walks.clear()
    report(found, tmp_path)
    text = (tmp_path / "performance.md").read_text(encoding="utf-8")
    assert "- latency: service, page, at first, 1 clients, zstd: requested zstd, but the response is identity" in text
    assert "| pages per second, 8 clients: service / same body | ≥ 0.85 |  | not measured |" in text
    assert "Walks" not in text
