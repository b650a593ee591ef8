"""Writes docs/reliability.md: the tables between the markers come from the results; the text around them stays."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.report import between_marks
from tests.chaos import results as stored
from tests.chaos.results import ChaosResults, ResultRow
from tests.chaos.scenario_result import ScenarioResult

_HEAD = ("fault", "requests", "wrong", "failed", "longest outage")


def concluded(played: ChaosResults, page: Path | None, order: Iterable[str] = ()) -> int:
    """Write the results and the page, and print the table; return the exit code.

    Rows of earlier runs stay unless they are replaced; `order` names those that come first.
    """
    found = stored.ChaosResults() if page is None else stored.read(_results_path(page))
    found.join(played)
    ordered = [*(name for name in order if name in found.rows), *found.rows]
    found.rows = {name: found.rows[name] for name in ordered}
    if page is not None:
        stored.write(found, _results_path(page))
        write_page(found, page)
    print(table(found))
    for name, sentences in found.violations.items():
        print(f"{name}: {'; '.join(sentences)}")
    return 1 if found.violations else 0


def _results_path(page: Path) -> Path:
    """Return the path of a page's results."""
    return page.with_suffix("") / "results.json"


def write_page(results: ChaosResults, page: Path) -> None:
    """Replace the tables of a page; raise ReportError if it has no markers."""
    page.write_text(between_marks(page.read_text(encoding="utf-8"), "\n\n".join(_parts(results))), encoding="utf-8")


def table(results: ChaosResults) -> str:
    """Return the table of all scenarios."""
    rows = (_cells(row.outcome) for row in results.rows.values())
    return "\n".join(["| " + " | ".join(_HEAD) + " |", "|---|---:|---:|---:|---:|", *rows])


def _parts(results: ChaosResults) -> Iterator[str]:
    versions = ", ".join(f"{name} {number}" for name, number in results.versions.items())
    total = [row.outcome for row in results.rows.values()]
    asked, wrong = sum(one.requests for one in total), sum(one.wrong for one in total)
    yield f"{len(total)} scenarios, {asked:,} requests, {wrong} wrong responses. {versions}; {results.machine}."
    yield table(results)
    yield "### Violations"
    yield "\n".join(_violations(results)) or "None."
    yield "### Further figures"
    yield "\n".join(_figures(results.rows.values()))
    yield "### Commands"
    yield "\n".join(_commands(results))


def _cells(outcome: ScenarioResult) -> str:
    share = f" ({100 * outcome.failed / outcome.requests:.2f} %)" if outcome.failed else ""
    counts = f"{outcome.requests:,} | {outcome.wrong} | {outcome.failed}{share} | {outcome.outage_seconds:.1f} s"
    return f"| {outcome.fault} | {counts} |"


def _violations(results: ChaosResults) -> Iterator[str]:
    for name, sentences in results.violations.items():
        yield from (f"- {name}: {sentence}" for sentence in sentences)


def _figures(rows: Iterable[ResultRow]) -> Iterator[str]:
    yield "| fault | figure | value |"
    yield "|---|---|---|"
    for row in rows:
        for number, (figure, value) in enumerate(row.outcome.figures.items()):
            yield f"| {'' if number else row.outcome.fault} | {figure} | {value} |"


def _commands(results: ChaosResults) -> Iterator[str]:
    yield "| scenario | command | date | seconds |"
    yield "|---|---|---|---:|"
    for name, row in results.rows.items():
        yield f"| {name} | `{row.command}` | {row.date} | {row.seconds:.0f} |"
