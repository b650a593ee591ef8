"""Progress displays of a run: bars on a terminal, lines of text elsewhere, or JSON lines if requested.

At its end they show its summary: the counts of each resource, and then what is wrong with it.
"""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Self, TextIO

import orjson
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from cluster.terminal import SafeConsole, counted, printable
from indexer.reporting.report import (
    EVERY_COMPANY_COVERED,
    EmptiedField,
    ResourceReport,
    RoundedField,
    RunStage,
    RunSummary,
    fault_lines,
    listed,
)

_JSON_INTERVAL_SECONDS = 5.0
_PLAIN_INTERVAL_SECONDS = 10.0
_FINAL_STAGES = frozenset(
    {RunStage.SWAPPED, RunStage.BUILT, RunStage.ABSENT, RunStage.UPDATED, RunStage.CHECKED, RunStage.READ}
)


class Display(ABC):
    """Shows a run, as a context; `finish` is called after its end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        return None

    @abstractmethod
    def show(self, report: ResourceReport) -> None:
        """Show the progress of a resource."""

    @abstractmethod
    def note(self, sentence: str) -> None:
        """Show a sentence."""

    def finish(self, summary: RunSummary) -> None:
        for line in _summary_lines(summary):
            self.note(line)


class TerminalProgress(Display):
    """One bar per resource: share of the source read, records, rate, time left, retries and dead letters."""

    def __init__(self, console: Console) -> None:
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
        self._progress.start()
        return self

    def __exit__(self, *_details: object) -> None:
        """Stop the live display; the bars disappear, because the summary has their counts."""
        self._progress.stop()

    def show(self, report: ResourceReport) -> None:
        name, is_final = report.resource, report.stage in _FINAL_STAGES
        if name not in self._tasks:
            self._started[name] = time.monotonic()
            self._tasks[name] = self._progress.add_task(f"{name:13}", total=None, counts="")
        total = max(report.bytes_total, report.bytes_read, 1) if report.bytes_total or is_final else None
        done = total if is_final else report.bytes_read
        self._progress.update(self._tasks[name], total=total, completed=done, counts=self._counts(report))

    def note(self, sentence: str) -> None:
        self._console.print(sentence, highlight=False, soft_wrap=True, markup=False)

    def _counts(self, report: ResourceReport) -> str:
        if report.stage is RunStage.ABSENT:
            return "not in the source"
        if report.note and report.stage not in _FINAL_STAGES:
            return f"[yellow]{escape(report.note)}[/yellow]"
        seconds = max(time.monotonic() - self._started[report.resource], 0.001)
        counts = [f"{report.read:,} read", f"{(report.read - report.resumed_at) / seconds:,.0f}/s"]
        counts += [f"{report.retries:,} {'retry' if report.retries == 1 else 'retries'}"] if report.retries else []
        counts += [f"[red]{counted(report.dead, 'bad record')}[/red]"] if report.dead else []
        return f"{', '.join(counts)} ({stage_name(report.stage)})"


class _Written(Display):
    """A display that is written to a stream, which the caller closes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._written = time.monotonic()


class PlainProgress(_Written):
    """Lines of text for a pipe or a file: what a run waits for, its progress every ten seconds, and the summary."""

    _note: str | None = None

    def show(self, report: ResourceReport) -> None:
        if report.note and report.note != self._note:
            self.note(f"{report.resource}: {report.note}")
        elif time.monotonic() - self._written >= _PLAIN_INTERVAL_SECONDS and report.stage not in _FINAL_STAGES:
            self.note(f"{report.resource}: {report.read:,} read ({stage_name(report.stage)})")
        self._note = report.note

    def note(self, sentence: str) -> None:
        self._written = time.monotonic()
        self._stream.write(printable(f"{sentence}\n"))
        self._stream.flush()


class JsonProgress(_Written):
    """One line per change of stage or note, one every five seconds in between, and one for the summary."""

    _last_shown: tuple[str, RunStage, str | None] | None = None

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
        self._write({"event": "note", "note": sentence})

    def finish(self, summary: RunSummary) -> None:
        reports = (report for report in summary.resources if report.stage is not RunStage.ABSENT)
        resources = {report.resource: asdict(report) for report in reports}
        checked = {} if summary.keys_checked is None else {"keys_checked": summary.keys_checked}
        said = {name: said for name in ("missing", "notes") if (said := getattr(summary, name))}
        self._write({"event": "summary", "exit_code": summary.exit_code, "resources": resources} | checked | said)

    def _write(self, event: dict[str, object]) -> None:
        self._stream.write(printable(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE).decode()))
        self._stream.flush()


def progress_display(*, as_json: bool) -> Display:
    """Return JSON lines if requested, else bars on a terminal and lines of text elsewhere."""
    if as_json:
        return JsonProgress(sys.stdout)
    console = SafeConsole()
    return TerminalProgress(console) if console.is_terminal else PlainProgress(sys.stdout)


_MAX_SHOWN_FIELDS = 3


def _summary_lines(summary: RunSummary) -> Iterator[str]:
    """Yield a line of counts for each resource that the source has, and one for those that it lacks.

    A run without any resource is an update from a source without lines.
    """
    if not summary.resources:
        yield "No lines to apply."
    by_stage: dict[RunStage, list[str]] = {}
    for report in summary.resources:
        by_stage.setdefault(report.stage, []).append(report.resource)
        if report.stage is RunStage.BUILT:
            yield f"{report.resource}: built and kept as {report.generation}, not live"
        elif report.stage not in {RunStage.ABSENT, RunStage.WAITING}:
            yield _counts_line(report)
    for stage, start in ((RunStage.WAITING, "Not begun"), (RunStage.ABSENT, "Not in the source")):
        if names := by_stage.get(stage):
            yield f"{start}: {', '.join(names)}."


_ZONELESS = (
    "open houses without a time zone (/v1/reso has their days alone: give property_time_zone or the office's timezone)"
)


def _counts_line(report: ResourceReport) -> str:
    counts = {
        "indexed": report.indexed,
        "unchanged": report.unchanged,
        "older than another state": report.stale,
        "merged with another line": report.merged,
        "invalid": report.dead,
        "vanished": report.vanished,
        "carried over": report.carried,
        "kept although unreadable": report.kept,
        "OnMarket values corrected": report.corrected,
        _ZONELESS: report.zoneless,
        "retries": report.retries,
    }
    skipped = [f"{counted(report.skipped, 'row')} left out{reasons_of(report.skip_reasons)}"] if report.skipped else []
    details = [f"{report.read:,} read", *skipped, *(f"{count:,} {name}" for name, count in counts.items() if count)]
    details += [f"{report.rounded:,} numbers rounded{rounded_fields(report.roundings)}"] if report.rounded else []
    details += [_emptied(report.emptied)] if report.emptied else []
    starts = {
        RunStage.SWAPPED: f" {report.documents:,} live in {report.generation};",
        RunStage.REFUSED: " refused;",
        RunStage.CHECKED: " checked;",
    }
    resumed = f"; resumed after line {report.resumed_at:,}" if report.resumed_at else ""
    resumed = "; built by an earlier run, which was refused" if report.is_taken else resumed
    return f"{report.resource}:{starts.get(report.stage, '')} {', '.join(details)}{_coverage(report)}{resumed}"


def _emptied(fields: Sequence[EmptiedField]) -> str:
    """Return how many cells cannot be read and are empty, and the fields that have most of them, with an example."""
    count, named = sum(one.count for one in fields), [(one.count, one.field, one.examples[0]) for one in fields]
    return f"{counted(count, 'unreadable cell')} left empty{_of_fields(named)}"


def _of_fields(counts: Sequence[tuple[int, str, str]]) -> str:
    """Return the first of some fields with their counts and examples in parentheses, and how many more there are."""
    named = [f"{count:,} {name}, such as {example}" for count, name, example in counts]
    more = [counted(len(named) - _MAX_SHOWN_FIELDS, "more field")] if len(named) > _MAX_SHOWN_FIELDS else []
    return f" ({'; '.join([*named[:_MAX_SHOWN_FIELDS], *more])})" if named else ""


_MAX_REASONS = 5


def reasons_of(skipped: Mapping[str, int]) -> str:
    """Return why rows were left out, in parentheses, the most frequent reasons first."""
    most = sorted(skipped.items(), key=lambda reason: -reason[1])
    return f" ({listed([f'{count:,} {reason}' for reason, count in most], len(most), _MAX_REASONS)})" if most else ""


def _coverage(report: ResourceReport) -> str:
    """Return which companies a build replaces, and how many records of which of them vanish."""
    is_notable = report.others or report.covers == EVERY_COMPANY_COVERED
    covers = f"; covers {report.covers}" if is_notable else ""
    others = f"; unchanged: {counted(report.others, 'record')} of other companies" if report.others else ""
    vanished = ", ".join(f"{count:,} of {company}" for company, count in report.vanished_companies.items())
    return f"{covers}{others}{f'; vanished: {vanished}' if vanished else ''}"


def rounded_fields(roundings: Sequence[RoundedField]) -> str:
    """Return the fields that have most of the rounded numbers, in parentheses, each with an example."""
    most = sorted(roundings, key=lambda rounding: -rounding.count)
    return _of_fields([(rounding.count, rounding.field, f"{rounding.given} to {rounding.whole}") for rounding in most])


def problem_lines(report: ResourceReport) -> Iterator[str]:
    """Yield what a run overrode, what it warns of, why it was refused, and what is not served, with causes."""
    yield from (f"Overridden: {objection}." for objection in report.overridden)
    yield from (f"Warning: {warning}." for warning in report.warnings)
    yield from failure_lines(report)


def failure_lines(report: ResourceReport) -> Iterator[str]:
    """Yield why a run failed: a refusal, invalid lines with their most frequent causes, records that are not served."""
    if report.refusal:
        yield report.refusal
    elif report.dead:
        yield _dead_letters(report)
    yield from (f"  {line}" for line in fault_lines(report.causes))
    for kind in report.unserved:
        verb = "is" if kind.count == 1 else "are"
        yield f"{counted(kind.count, 'record')} of {report.resource} {verb} not served: {kind.reason}."
        yield from (f"  {example}" for example in kind.examples)


def stage_name(stage: RunStage) -> str:
    """Return what people read of a stage."""
    return {RunStage.SWAPPING: "going live", RunStage.SWAPPED: "live"}.get(stage, stage.value)


def kept_line(summary: RunSummary) -> str | None:
    """Return what became of the resources that were built along with a refused one, in a sentence, or None."""
    refused, built = (", ".join(summary.resources_at(stage)) for stage in (RunStage.REFUSED, RunStage.BUILT))
    if not built:
        return None
    return (
        f"{built}: built, not live, because all resources of a rebuild go live together and {refused} "
        "were refused. The new versions are kept, and the next run of the same source takes them."
    )


def _dead_letters(report: ResourceReport) -> str:
    kept = f" {report.kept} of them stay live as they were." if report.kept else ""
    return (
        f"{report.dead:,} of {report.read:,} {report.resource} are invalid and were not loaded: "
        f"see {report.dead_letters}.{kept}"
    )
