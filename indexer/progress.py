"""How a run shows where it stands: bars on a terminal, JSON lines everywhere else."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Self, TextIO

import orjson
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from indexer.report import ResourceReport, Stage

if TYPE_CHECKING:
    from indexer.report import Summary

_EVERY_SECONDS = 5.0


class Bars:
    """One bar per resource: share of the source read, records, rate and bad ones."""

    def __init__(self, console: Console) -> None:
        """Draw nothing before the first report."""
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[counts]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._tasks: dict[str, TaskID] = {}
        self._started: dict[str, float] = {}

    def __enter__(self) -> Self:
        """Start drawing."""
        self._progress.start()
        return self

    def __exit__(self, *_details: object) -> None:
        """Leave the bars as they are."""
        self._progress.stop()

    def show(self, report: ResourceReport) -> None:
        """Bring a resource's bar up to date."""
        name = report.resource
        if name not in self._tasks:
            self._started[name] = time.monotonic()
            self._tasks[name] = self._progress.add_task(f"{name:13}", total=None, counts="")
        done = report.stage in {Stage.SWAPPED, Stage.ABSENT}
        total = max(1, report.bytes_total)
        self._progress.update(
            self._tasks[name], total=total, completed=total if done else report.bytes_read, counts=self._counts(report)
        )

    def _counts(self, report: ResourceReport) -> str:
        if report.stage is Stage.ABSENT:
            return "not in the source"
        seconds = max(time.monotonic() - self._started[report.resource], 0.001)
        bad = f", [red]{report.bad:,} bad[/red]" if report.bad else ""
        return f"{report.read:,} records, {report.read / seconds:,.0f}/s{bad} ({report.stage})"

    def finish(self, summary: Summary) -> None:
        """Say what came of each resource."""
        for report in summary.resources:
            self._console.print(_sentence(report), highlight=False, soft_wrap=True)


def _sentence(report: ResourceReport) -> str:
    if report.stage is not Stage.SWAPPED:
        return f"{report.resource}: {report.refusal or report.stage}"
    counts = {"bad": report.bad, "superseded": report.superseded, "tombstones": report.tombstones}
    mended = {"numbers rounded": report.rounded, "OnMarket values corrected": report.corrected}
    details = "".join(f", {count:,} {name}" for name, count in (counts | mended).items() if count)
    letters = f"; see {report.dead_letters}" if report.dead_letters else ""
    return f"{report.resource}: {report.accepted:,} live in {report.generation}{details}{letters}"


class JsonLines:
    """One line per change of stage, one every five seconds while reading, and one for the summary."""

    def __init__(self, stream: TextIO) -> None:
        """Write to a stream that is the caller's."""
        self._stream = stream
        self._stage: tuple[str, Stage] | None = None
        self._written = 0.0

    def __enter__(self) -> Self:
        """Nothing to start."""
        return self

    def __exit__(self, *_details: object) -> None:
        """Nothing to stop."""

    def show(self, report: ResourceReport) -> None:
        """Write the report unless it says nothing new."""
        stage = (report.resource, report.stage)
        if stage == self._stage and time.monotonic() - self._written < _EVERY_SECONDS:
            return
        self._stage, self._written = stage, time.monotonic()
        self._write({"event": "progress", **asdict(report)})

    def finish(self, summary: Summary) -> None:
        """Write the summary."""
        resources = {report.resource: asdict(report) for report in summary.resources}
        self._write({"event": "summary", "exit_code": summary.exit_code, "resources": resources})

    def _write(self, event: dict[str, object]) -> None:
        self._stream.write(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE).decode())
        self._stream.flush()


def display(*, as_json: bool) -> Bars | JsonLines:
    """Return the display that fits where standard output goes."""
    console = Console()
    return Bars(console) if console.is_terminal and not as_json else JsonLines(sys.stdout)
