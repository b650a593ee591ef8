"""Progress displays of a run: bars on a terminal, lines of text elsewhere, or JSON lines if requested."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Protocol, Self, TextIO

import orjson
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from cluster.safe_console import SafeConsole
from cluster.terminal_text import printable
from indexer.reporting.report import ResourceReport, RunStage, RunSummary
from indexer.reporting.summary_lines import summary_lines

if TYPE_CHECKING:
    from rich.console import Console

_JSON_INTERVAL_SECONDS = 5.0
_PLAIN_INTERVAL_SECONDS = 10.0
_FINAL_STAGES = frozenset(
    {RunStage.SWAPPED, RunStage.BUILT, RunStage.ABSENT, RunStage.UPDATED, RunStage.CHECKED, RunStage.READ}
)


class Display(Protocol):
    """Shows a run, as a context."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(self, *details: object) -> None:
        """End, before `finish`."""

    def show(self, report: ResourceReport) -> None:
        """Show the progress of a resource."""

    def note(self, sentence: str) -> None:
        """Show a sentence."""

    def finish(self, summary: RunSummary) -> None:
        """Show the summary."""


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
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}
        self._started: dict[str, float] = {}

    def __enter__(self) -> Self:
        """Start the live display."""
        self._progress.start()
        return self

    def __exit__(self, *_details: object) -> None:
        """Stop the live display; the bars disappear, because the summary has their counts."""
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
        """Print the summary."""
        for line in summary_lines(summary):
            self.note(line)


class PlainProgress:
    """Lines of text for a pipe or a file: what a run waits for, its progress every ten seconds, and the summary."""

    def __init__(self, stream: TextIO) -> None:
        """Write to a stream, which the caller closes."""
        self._stream = stream
        self._note: str | None = None
        self._written = time.monotonic()

    def __enter__(self) -> Self:
        """Do nothing."""
        return self

    def __exit__(self, *_details: object) -> None:
        """Do nothing."""

    def show(self, report: ResourceReport) -> None:
        """Write a new note, or the counts if the interval has passed."""
        if report.note and report.note != self._note:
            self.note(f"{report.resource}: {report.note}")
        elif time.monotonic() - self._written >= _PLAIN_INTERVAL_SECONDS and report.stage not in _FINAL_STAGES:
            self.note(f"{report.resource}: {report.read:,} read ({report.stage})")
        self._note = report.note

    def note(self, sentence: str) -> None:
        """Write a sentence."""
        self._written = time.monotonic()
        self._stream.write(printable(f"{sentence}\n"))
        self._stream.flush()

    def finish(self, summary: RunSummary) -> None:
        """Write the summary."""
        for line in summary_lines(summary):
            self.note(line)


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
        """Write the report if its stage or note changed or the interval has passed; absent resources have none."""
        if report.stage is RunStage.ABSENT:
            return
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
        reports = (report for report in summary.resources if report.stage is not RunStage.ABSENT)
        resources = {report.resource: asdict(report) for report in reports}
        checked = {} if summary.keys_checked is None else {"keys_checked": summary.keys_checked}
        missing = {"missing": summary.missing} if summary.missing else {}
        self._write({"event": "summary", "exit_code": summary.exit_code, "resources": resources} | checked | missing)

    def _write(self, event: dict[str, object]) -> None:
        self._stream.write(printable(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE).decode()))
        self._stream.flush()


def progress_display(*, as_json: bool) -> Display:
    """Return JSON lines if requested, else bars on a terminal and lines of text elsewhere."""
    if as_json:
        return JsonProgress(sys.stdout)
    console = SafeConsole()
    return TerminalProgress(console) if console.is_terminal else PlainProgress(sys.stdout)
