"""What a run found, as JSON: the page is written from it, so it can be written again."""

from __future__ import annotations

import datetime as dt
import os
import platform
import shlex
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from embedded import VERSION
from tests.chaos.outcome import Outcome  # noqa: TC001 - the rows are decoded by it

if TYPE_CHECKING:
    from collections.abc import Mapping

_PACKAGES = ("brokerage", "aiohttp", "elasticsearch", "uvloop")


class Row(msgspec.Struct, frozen=True):
    """One scenario: what came of it, when, and the command that did it."""

    outcome: Outcome
    date: str
    command: str
    seconds: float


class Results(msgspec.Struct):
    """All rows by the names of their scenarios, and where the latest of them come from."""

    rows: dict[str, Row] = {}
    versions: dict[str, str] = {}
    machine: str = ""

    def take(self, name: str, outcome: Outcome, seconds: float) -> None:
        """Add what a scenario found, made by this command."""
        module = Path(sys.argv[0]).stem.replace("__main__", "")
        command = shlex.join(["python", "-m", f"tests.chaos.{module}".rstrip("."), *sys.argv[1:]])
        self.rows[name] = Row(outcome, dt.datetime.now(dt.UTC).date().isoformat(), command, round(seconds, 1))
        self.versions = {"Python": platform.python_version(), "Elasticsearch": VERSION}
        self.versions |= {name: version(name) for name in _PACKAGES}
        self.machine = f"{len(os.sched_getaffinity(0))} cores ({_processor()})"

    def join(self, later: Results) -> None:
        """Let the rows of a later run replace those that it repeats."""
        if later.rows:
            self.rows |= later.rows
            self.versions, self.machine = later.versions, later.machine

    @property
    def violations(self) -> Mapping[str, list[str]]:
        """Each scenario that violated something, with what."""
        return {name: row.outcome.violations for name, row in self.rows.items() if row.outcome.violations}


def read(path: Path) -> Results:
    """Return what earlier runs found; nothing where there was none."""
    return msgspec.json.decode(path.read_bytes(), type=Results) if path.exists() else Results()


def write(results: Results, path: Path) -> None:
    """Write the results, one member a line so that differences can be read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
