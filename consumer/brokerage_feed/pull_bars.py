"""Progress bars of a pull on a terminal. Needs the extra `progress`."""

import time
from collections.abc import Iterable
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from brokerage_feed.errors import printable
from brokerage_feed.pull_progress import PullStage, PullStatus, VerificationOutcome

_MAX_IDS_SHOWN = 20


class PullProgressBars:
    """One bar per resource: share of its snapshot, records and rate, then the number of changes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[detail]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._tasks: dict[str, TaskID] = {}
        self._started: dict[str, float] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_details: object) -> None:
        self._progress.stop()

    def show(self, status: PullStatus) -> None:
        """Update the bar of a resource."""
        name = status.resource
        if name not in self._tasks:
            self._started[name] = time.monotonic()
            self._tasks[name] = self._progress.add_task(f"{name:13}", total=None, detail="")
        is_counted = status.stage is PullStage.SNAPSHOT
        total, done = (max(status.total, status.done, 1), status.done) if is_counted else (1, 1)
        self._progress.update(self._tasks[name], total=total, completed=done, detail=self._detail(status))

    def _detail(self, status: PullStatus) -> str:
        if status.note:
            return f"[yellow]{escape(printable(status.note))}[/yellow]"
        if status.stage is not PullStage.SNAPSHOT:
            return f"{', '.join(_counted(status)) or 'nothing new'} ({status.stage})"
        seconds = max(time.monotonic() - self._started[status.resource], 0.001)
        rate = (status.done - status.resumed_at) / seconds
        return f"{status.done:,} of {status.total:,}, {rate:,.0f}/s ({status.stage})"

    def finish(self, statuses: Iterable[PullStatus]) -> None:
        """Print a summary line per resource."""
        for status in statuses:
            self._console.print(printable(_summary_line(status)), highlight=False, soft_wrap=True, markup=False)


def _summary_line(status: PullStatus) -> str:
    """Return the outcome of one resource in one line."""
    if status.stage is PullStage.ABSENT:
        return f"{status.resource}: absent, because the service has no data of it yet"
    counts = ", ".join([f"{status.records:,} records", *_counted(status)])
    return f"{status.resource}: {counts}; {status.proof}{_format_differing(status)}"


def _counted(status: PullStatus) -> list[str]:
    counts = {
        "changed": status.changed,
        "removed": status.removed,
        "snapshot" if status.snapshots == 1 else "snapshots": status.snapshots,
    }
    return [f"{count:,} {name}" for name, count in counts.items() if count]


def _format_differing(status: PullStatus) -> str:
    """Return a colon and the first differing identifiers, or nothing if there are none."""
    if status.proof not in {VerificationOutcome.REPAIRED, VerificationOutcome.DIFFERENT} or not status.different:
        return ""
    more = len(status.different) - _MAX_IDS_SHOWN
    return f": {', '.join(status.different[:_MAX_IDS_SHOWN])}{f' and {more:,} more' if more > 0 else ''}"
