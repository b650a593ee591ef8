"""Figures come from medians of one run, and the page from the results alone."""

from pathlib import Path

import msgspec
import pytest

from bench.paired import judge
from bench.questions import GROUPS, SERVICE
from bench.report import BEGIN, END, Figure, ReportError, between_marks, figures, report
from bench.results import Ratio, Results, Spread, begun, compared, quantile, ratio, read, spread, write
from tests.bench.made import EVERYONE, results


def test_medians_quarter_points_quantiles_and_ratios() -> None:
    assert spread([5, 1, 3, 2, 4]) == Spread(3, 2, 4)
    assert spread([7]) == Spread(7, 7, 7)
    assert [quantile([3, 1, 2], share) for share in (0, 0.25, 0.5, 1)] == [1, 1.5, 2, 3]
    assert ratio([2, 4, 9], [1, 2, 3]) == Spread(2, 2, 2.5)
    with pytest.raises(ValueError, match="shorter"):
        ratio([1, 2], [1])


def test_two_versions_are_compared_turn_by_turn(capsys: pytest.CaptureFixture[str]) -> None:
    found = compared("page", "ms", [(1.0, 2.0), (2.0, 3.0), (4.0, 4.0), (1.0, 1.5)])
    assert found.median == 1.5
    assert found.uncertainty == pytest.approx(1.57 * 0.25 / 2)
    assert "before    1.500 ms, after    2.500 ms, ratio 1.500 ± 0.196" in capsys.readouterr().out


def test_the_guard_names_what_is_slower_and_what_it_cannot_see(capsys: pytest.CaptureFixture[str]) -> None:
    noisy, equal, busy = Ratio(1.0, 0.06), Ratio(1.05, 0.05), Ratio(2.0, 0.01)
    judge({"page": equal, "seconds until ready": busy, "show": noisy}, 1.05)
    assert capsys.readouterr().out == "Too noisy here to see a ratio of 1.05: show.\n"
    with pytest.raises(SystemExit, match=r"^Above 1\.05: show\.$"):
        judge({"page": equal, "show": Ratio(1.051, 0.01)}, 1.05)


def test_every_figure_is_worked_out() -> None:
    found = figures(results(EVERYONE, cpu=0.5))
    assert [round(figure.value.median, 3) for figure in found if figure.value] == [
        0.75,  # pages per second: service / relay
        1.5,  # service / PostgreSQL
        1.0,  # their processor time
        5.0,  # service / FastAPI
        1.0,  # their processor time
        2.0,  # service / the fastest of three textbook indices
        round(10 / 12, 3),  # pages per second, 8 clients: service / same body
        1.0,  # 97 % / first page
        1.0,  # gzip / identity
        1.0,  # zstd / identity
        1.0,  # underscored / plain
        1.0,  # Property / feed
        round(10 / 12, 3),  # shows
        0.5,  # processor time of a show
        1.2,  # 100 agents: service / same body
        1.0,  # megabytes of a page
        0.5,  # processor seconds for a gigabyte: 0.5 ms for 1 MB
        1.2,  # service / same body
        1.0,  # the same page / distinct pages
        2.0,  # 2 workers / 1
    ]


def test_what_was_not_measured_has_no_value_and_no_verdict() -> None:
    found = results(EVERYONE)
    for group in found.groups.values():
        for name in [name for name, each in group.items() if each.encoding == "gzip"]:
            del group[name]
    [absent] = [figure for figure in figures(found) if figure.value is None]
    assert (absent.name, absent.reached) == ("pages per second, 8 clients: gzip / identity", None)


@pytest.mark.parametrize(
    ("figure", "aim", "reached"),
    [
        (Figure("x", spread([1.07]), most=1.07), "≤ 1.07", True),
        (Figure("x", spread([1.08]), most=1.07), "≤ 1.07", False),
        (Figure("x", spread([0.84]), least=0.85), "≥ 0.85", False),
        (Figure("x", spread([0.84])), "reported", None),
    ],
)
def test_an_aim_is_a_most_or_a_least(figure: Figure, aim: str, reached: bool | None) -> None:
    assert (figure.aim, figure.reached) == (aim, reached)


@pytest.mark.parametrize("group", GROUPS)
def test_arms_of_a_group_have_names_of_their_own(group: str) -> None:
    assert len({arm.name for arm in GROUPS[group]}) == len(GROUPS[group])


@pytest.fixture
def earlier() -> Results:
    """An earlier run whose walk of the service failed."""
    found = results({SERVICE: 10.0})
    found.absent = {"latency: an arm": "away", "walks": "broken"}
    return found


def test_stages_that_are_not_measured_again_are_kept(earlier: Results, tmp_path: Path) -> None:
    file = tmp_path / "performance" / "results.json"
    write(earlier, file)
    write(read(file), file)
    assert [path.name for path in file.parent.iterdir()] == ["results.json"]
    found = begun(file, msgspec.structs.replace(earlier.environment, date="2027-01-01"))
    found.forget("walks")
    assert found.groups.keys() == earlier.groups.keys() != set()
    assert (found.walks, found.absent) == ([], {"latency: an arm": "away"})
    found.forget("latency")
    assert found.groups.keys() == earlier.groups.keys() - {"latency"}
    assert found.absent == {}


@pytest.mark.parametrize("change", [{"listings": 7}, {"cores": 99}, {"versions": {"Python": "4.0"}}, {"page": 7}])
def test_results_of_other_data_or_programs_are_not_mixed_in(
    earlier: Results, tmp_path: Path, change: dict[str, object]
) -> None:
    write(earlier, tmp_path / "results.json")
    found = begun(tmp_path / "results.json", msgspec.structs.replace(earlier.environment, **change))
    assert (found.groups, found.walks, found.absent) == ({}, [], {})


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


def _row(text: str, begin: str) -> list[str]:
    [row] = [line for line in text.splitlines() if line.startswith(f"| {begin} |")]
    return [cell.strip() for cell in row.strip("|").split("|")][1:]


def test_the_page_holds_every_figure_and_every_arm(tmp_path: Path) -> None:
    report(results(EVERYONE), tmp_path)
    text = (tmp_path / "performance.md").read_text(encoding="utf-8")
    aim, measured, verdict = _row(text, "pages per second, 8 clients: service / same body")
    assert (aim, measured[:4], verdict) == ("≥ 0.72", "0.83", "reached")
    aim, measured, verdict = _row(text, "page at 97 % of the largest company / first page, time")
    assert (aim, measured[:4], verdict) == ("≤ 1.10", "1.00", "reached")
    assert _row(text, "pages per second, 64 clients: 2 workers / 1 worker")[::2] == ["reported", ""]
    assert _row(text, "snapshot") == ["2.00 (1.50 to 2.50)", "300", "3", "500.0", "1000.0"]
    assert "started in 1.5 s, and held 80 MB after the start and 120 MB at most" in text
    assert _row(text, "update of 1 in 20") == ["50", "2.0", "25", "0.5", "1.5", "100"]
    assert "The source has 7 MB, the index after the load 2 MB." in text
    assert "1,000 listings, 600 of them of the largest company" in text
    assert {answers for answers in EVERYONE if f"\n| {answers} |" not in text} == set()
    assert [figure.name for figure in figures(results(EVERYONE)) if f"\n| {figure.name} |" not in text] == []


def test_absent_arms_are_reported(tmp_path: Path) -> None:
    found = results({SERVICE: 12.0})
    found.absent["latency: service, zstd"] = "requested zstd, but the response is identity"
    found.walks.clear()
    report(found, tmp_path)
    text = (tmp_path / "performance.md").read_text(encoding="utf-8")
    assert "- latency: service, zstd: requested zstd, but the response is identity" in text
    assert "| pages per second, 8 clients: service / same body | ≥ 0.72 |  | not measured |" in text
    assert "Walks" not in text
