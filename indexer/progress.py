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
_DONE = frozenset({Stage.SWAPPED, Stage.ABSENT, Stage.UPDATED, Stage.CHECKED, Stage.READ})


class Bars:
    """One bar per resource: share of the source read, records, rate, time left, retries and dead letters."""

    def __init__(self, console: Console) -> None:
        """Draw nothing before the first report."""
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
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
        total = max(report.bytes_total, report.bytes_read, 1) if report.bytes_total or report.stage in _DONE else None
        done = total if report.stage in _DONE and total is not None else report.bytes_read
        self._progress.update(self._tasks[name], total=total, completed=done, counts=self._counts(report))

    def say(self, sentence: str) -> None:
        """Write a sentence above the bars."""
        self._console.print(sentence, highlight=False, soft_wrap=True, markup=False)

    def _counts(self, report: ResourceReport) -> str:
        if report.stage is Stage.ABSENT:
            return "not in the source"
        if report.note and report.stage not in _DONE:
            return f"[yellow]{report.note}[/yellow]"
        seconds = max(time.monotonic() - self._started[report.resource], 0.001)
        counts = [f"{report.read:,} read", f"{(report.read - report.resumed_at) / seconds:,.0f}/s"]
        counts += [f"{report.retries:,} retries"] if report.retries else []
        counts += [f"[red]{report.dead:,} dead letters[/red]"] if report.dead else []
        return f"{', '.join(counts)} ({report.stage})"

    def finish(self, summary: Summary) -> None:
        """Say what came of each resource."""
        for report in summary.resources:
            self._console.print(sentence(report), highlight=False, soft_wrap=True)


def sentence(report: ResourceReport) -> str:
    """Return what came of one resource in one line."""
    if report.stage in {Stage.ABSENT, Stage.WAITING, Stage.REFUSED}:
        return f"{report.resource}: {report.refusal or report.stage}"
    counts = {"read": report.read, "indexed": report.indexed, "unchanged": report.unchanged, "stale": report.stale}
    rare = {
        "dead": report.dead,
        "vanished": report.vanished,
        "carried over": report.carried,
        "numbers rounded": report.rounded,
        "OnMarket values corrected": report.corrected,
        "retries": report.retries,
    }
    shown = {"read": report.read} if report.stage is Stage.CHECKED else counts
    told = ", ".join(f"{count:,} {name}" for name, count in (shown | rare).items() if count or name == "read")
    served = f" {report.documents:,} live in {report.generation};" if report.stage is Stage.SWAPPED else ""
    resumed = f"; went on behind line {report.resumed_at:,}" if report.resumed_at else ""
    letters = f"; see {report.dead_letters}" if report.dead_letters else ""
    return f"{report.resource}:{served} {told}{resumed}{letters}"


class JsonLines:
    """One line per change of stage or note, one every five seconds in between, and one for the summary."""

    def __init__(self, stream: TextIO) -> None:
        """Write to a stream that is the caller's."""
        self._stream = stream
        self._said: tuple[str, Stage, str | None] | None = None
        self._written = 0.0

    def __enter__(self) -> Self:
        """Nothing to start."""
        return self

    def __exit__(self, *_details: object) -> None:
        """Nothing to stop."""

    def show(self, report: ResourceReport) -> None:
        """Write the report unless it says nothing new."""
        said = (report.resource, report.stage, report.note)
        if said == self._said and time.monotonic() - self._written < _EVERY_SECONDS:
            return
        self._said, self._written = said, time.monotonic()
        self._write({"event": "progress", **asdict(report)})

    def say(self, sentence: str) -> None:
        """Write a sentence."""
        self._write({"event": "note", "note": sentence})

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
