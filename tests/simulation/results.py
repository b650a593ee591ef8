"""The result of a scenario, results of earlier runs, and the page that shows them: docs/reliability.md.

The tables between the markers of the page come from the results; the text around them stays.
"""

from __future__ import annotations

import datetime as dt
import os
import platform
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import msgspec

from bench.report import between_marks
from embedded import VERSION

_PACKAGES = ("brokerage-server", "aiohttp", "elasticsearch", "uvloop")
_HEAD = "| fault | requests | wrong | failed | longest outage |\n|---|---:|---:|---:|---:|"


@dataclass(frozen=True, kw_only=True)
class ScenarioResult:
    """One fault and its effect on consumers.

    `wrong` counts incorrect responses: a page that lacked or repeated a record, a wrong `FinalPage`, a
    record of another state. `failed` counts requests that ended with a 5xx status or a broken connection.
    """

    fault: str  # what was done, such as "SIGKILL of one of three nodes during 20 walks"
    requests: int
    wrong: int
    failed: int
    outage_seconds: float  # the longest time without a good answer
    figures: dict[str, str] = field(default_factory=dict)  # what else was measured, by its name
    violations: list[str] = field(default_factory=list)  # a sentence for each thing that must not be; none: it holds


class ResultRow(msgspec.Struct, frozen=True):
    """One scenario: its result, its date and the command that ran it."""

    outcome: ScenarioResult
    date: str
    command: str
    seconds: float


class ChaosResults(msgspec.Struct):
    """All rows by scenario, and the environment of the latest run."""

    rows: dict[str, ResultRow] = {}
    versions: dict[str, str] = {}
    machine: str = ""

    def take(self, name: str, outcome: ScenarioResult, seconds: float) -> None:
        """Add the result of a scenario that this command ran in so many seconds."""
        folder, module = Path(sys.argv[0]).parent.name, Path(sys.argv[0]).stem.replace("__main__", "")
        command = shlex.join(["python", "-m", f"tests.{folder}.{module}".rstrip("."), *sys.argv[1:]])
        self.rows[name] = ResultRow(outcome, dt.datetime.now(dt.UTC).date().isoformat(), command, round(seconds, 1))
        self.versions = {"Python": platform.python_version(), "Elasticsearch": VERSION}
        self.versions |= {name: version(name) for name in _PACKAGES}
        self.machine = f"{len(os.sched_getaffinity(0))} cores ({_processor()})"

    def join(self, later: ChaosResults) -> None:
        if later.rows:
            self.rows |= later.rows
            self.versions, self.machine = later.versions, later.machine

    @property
    def violations(self) -> Mapping[str, list[str]]:
        return {name: row.outcome.violations for name, row in self.rows.items() if row.outcome.violations}


def read(path: Path) -> ChaosResults:
    return msgspec.json.decode(path.read_bytes(), type=ChaosResults) if path.exists() else ChaosResults()


def concluded(played: ChaosResults, page: Path | None, order: Iterable[str] = ()) -> int:
    """Write the results and the page, and print the table; return the exit code: 1 after a violation.

    Rows of earlier runs stay unless they are replaced; `order` names those that come first.
    """
    found = ChaosResults() if page is None else read(_results_path(page))
    found.join(played)
    ordered = [*(name for name in order if name in found.rows), *found.rows]
    found.rows = {name: found.rows[name] for name in ordered}
    if page is not None:
        path = _results_path(page)
        path.parent.mkdir(parents=True, exist_ok=True)
        # One member per line keeps differences readable.
        path.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
        page.write_text(between_marks(page.read_text(encoding="utf-8"), "\n\n".join(_parts(found))), encoding="utf-8")
    print(_table(found))
    for row in played.rows.values():
        for name, value in row.outcome.figures.items():
            print(f"{row.outcome.fault}: {name}: {value}")
    for name, sentences in found.violations.items():
        print(f"{name}: {'; '.join(sentences)}")
    return 1 if found.violations else 0


def _results_path(page: Path) -> Path:
    return page.with_suffix("") / "results.json"


def report(what: str) -> None:
    """Say on standard error how far a run is."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def _table(results: ChaosResults) -> str:
    return "\n".join([_HEAD, *(_cells(row.outcome) for row in results.rows.values())])


def _cells(outcome: ScenarioResult) -> str:
    share = f" ({100 * outcome.failed / outcome.requests:.2f} %)" if outcome.failed else ""
    counts = f"{outcome.requests:,} | {outcome.wrong} | {outcome.failed}{share} | {outcome.outage_seconds:.1f} s"
    return f"| {outcome.fault} | {counts} |"


def _parts(results: ChaosResults) -> Iterator[str]:
    versions = ", ".join(f"{name} {number}" for name, number in results.versions.items())
    total = [row.outcome for row in results.rows.values()]
    asked, wrong = sum(outcome.requests for outcome in total), sum(outcome.wrong for outcome in total)
    yield f"{len(total)} scenarios, {asked:,} requests, {wrong} wrong responses. {versions}; {results.machine}."
    yield _table(results)
    yield "### Violations"
    violated = [f"- {name}: {said}" for name, sentences in results.violations.items() for said in sentences]
    yield "\n".join(violated) or "None."


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
