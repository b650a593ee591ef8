"""Results of runs as JSON, from which the page can be rendered again."""

from __future__ import annotations

import datetime as dt
import os
import platform
import shlex
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import msgspec

from embedded import VERSION
from tests.chaos.scenario_result import ScenarioResult

_PACKAGES = ("brokerage-server", "aiohttp", "elasticsearch", "uvloop")


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
        """Add the result of a scenario that this command ran."""
        folder, module = Path(sys.argv[0]).parent.name, Path(sys.argv[0]).stem.replace("__main__", "")
        command = shlex.join(["python", "-m", f"tests.{folder}.{module}".rstrip("."), *sys.argv[1:]])
        self.rows[name] = ResultRow(outcome, dt.datetime.now(dt.UTC).date().isoformat(), command, round(seconds, 1))
        self.versions = {"Python": platform.python_version(), "Elasticsearch": VERSION}
        self.versions |= {name: version(name) for name in _PACKAGES}
        self.machine = f"{len(os.sched_getaffinity(0))} cores ({_processor()})"

    def join(self, later: ChaosResults) -> None:
        """Replace rows with those of a later run."""
        if later.rows:
            self.rows |= later.rows
            self.versions, self.machine = later.versions, later.machine

    @property
    def violations(self) -> Mapping[str, list[str]]:
        """The violations by scenario."""
        return {name: row.outcome.violations for name, row in self.rows.items() if row.outcome.violations}


def read(path: Path) -> ChaosResults:
    """Return the results of earlier runs; empty if there are none."""
    return msgspec.json.decode(path.read_bytes(), type=ChaosResults) if path.exists() else ChaosResults()


def write(results: ChaosResults, path: Path) -> None:
    """Write the results, one member per line to keep differences readable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
