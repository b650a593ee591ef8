"""Progress displays of a run: bars on a terminal, JSON lines elsewhere."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Self, TextIO

import orjson
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from cluster.safe_console import SafeConsole
from cluster.terminal_text import printable
from indexer.reporting.report import ResourceReport, RunStage

if TYPE_CHECKING:
    from rich.console import Console

    from indexer.reporting.report import RunSummary

_JSON_INTERVAL_SECONDS = 5.0
_FINAL_STAGES = frozenset({RunStage.SWAPPED, RunStage.ABSENT, RunStage.UPDATED, RunStage.CHECKED, RunStage.READ})


class TerminalProgress:
    """One bar per resource: share of the source read, records, rate, time left, retries and dead letters."""

    def __init__(self, console: Console) -> None:
        """Write to the console of the caller."""
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
        """Start the live display."""
        self._progress.start()
        return self

    def __exit__(self, *_details: object) -> None:
        """Stop the live display; the bars stay visible."""
        self._progress.stop()

    def show(self, report: ResourceReport) -> None:
        """Update the bar of a resource."""
        name, is_final = report.resource, report.stage in _FINAL_STAGES
        if name not in self._tasks:
            self._started[name] = time.monotonic()
            self._tasks[name] = self._progress.add_task(f"{name:13}", total=None, counts="")
        total = max(report.bytes_total, report.bytes_read, 1) if report.bytes_total or is_final else None
        done = total if is_final else report.bytes_read
        self._progress.update(self._tasks[name], total=total, completed=done, counts=self._counts(report))

    def note(self, sentence: str) -> None:
        """Print a sentence above the bars."""
        self._console.print(sentence, highlight=False, soft_wrap=True, markup=False)

    def _counts(self, report: ResourceReport) -> str:
        if report.stage is RunStage.ABSENT:
            return "not in the source"
        if report.note and report.stage not in _FINAL_STAGES:
            return f"[yellow]{escape(report.note)}[/yellow]"
        seconds = max(time.monotonic() - self._started[report.resource], 0.001)
        counts = [f"{report.read:,} read", f"{(report.read - report.resumed_at) / seconds:,.0f}/s"]
        counts += [f"{report.retries:,} retries"] if report.retries else []
        counts += [f"[red]{report.dead:,} dead letters[/red]"] if report.dead else []
        return f"{', '.join(counts)} ({report.stage})"

    def finish(self, summary: RunSummary) -> None:
        """Print a summary line per resource."""
        for report in summary.resources:
            self._console.print(summary_line(report), highlight=False, soft_wrap=True, markup=False)


def summary_line(report: ResourceReport) -> str:
    """Return the outcome of one resource in one line."""
    if report.stage in {RunStage.ABSENT, RunStage.WAITING, RunStage.REFUSED}:
        return f"{report.resource}: {report.refusal or report.stage}"
    counts = {"read": report.read, "indexed": report.indexed, "unchanged": report.unchanged, "stale": report.stale}
    rare = {
        "dead": report.dead,
        "vanished": report.vanished,
        "carried over": report.carried,
        "kept although unreadable": report.kept,
        "numbers rounded": report.rounded,
        "OnMarket values corrected": report.corrected,
        "retries": report.retries,
    }
    shown = {"read": report.read} if report.stage is RunStage.CHECKED else counts
    details = ", ".join(f"{count:,} {name}" for name, count in (shown | rare).items() if count or name == "read")
    served = f" {report.documents:,} live in {report.generation};" if report.stage is RunStage.SWAPPED else ""
    resumed = f"; resumed after line {report.resumed_at:,}" if report.resumed_at else ""
    dead_letters = f"; see {report.dead_letters}" if report.dead_letters else ""
    return f"{report.resource}:{served} {details}{resumed}{dead_letters}"


class JsonProgress:
    """One line per change of stage or note, one every five seconds in between, and one for the summary."""

    def __init__(self, stream: TextIO) -> None:
        """Write to a stream, which the caller closes."""
        self._stream = stream
        self._last_shown: tuple[str, RunStage, str | None] | None = None
        self._written = 0.0

    def __enter__(self) -> Self:
        """Do nothing."""
        return self

    def __exit__(self, *_details: object) -> None:
        """Do nothing."""

    def show(self, report: ResourceReport) -> None:
        """Write the report if its stage or note changed or the interval has passed."""
        shown = (report.resource, report.stage, report.note)
        if shown == self._last_shown and time.monotonic() - self._written < _JSON_INTERVAL_SECONDS:
            return
        self._last_shown, self._written = shown, time.monotonic()
        self._write({"event": "progress", **asdict(report)})

    def note(self, sentence: str) -> None:
        """Write a sentence."""
        self._write({"event": "note", "note": sentence})

    def finish(self, summary: RunSummary) -> None:
        """Write the summary."""
        resources = {report.resource: asdict(report) for report in summary.resources}
        self._write({"event": "summary", "exit_code": summary.exit_code, "resources": resources})

    def _write(self, event: dict[str, object]) -> None:
        self._stream.write(printable(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE).decode()))
        self._stream.flush()


def progress_display(*, as_json: bool) -> TerminalProgress | JsonProgress:
    """Return bars if standard output is a terminal, else JSON lines."""
    console = SafeConsole()
    return TerminalProgress(console) if console.is_terminal and not as_json else JsonProgress(sys.stdout)
