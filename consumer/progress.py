"""How a pull shows where it stands: bars on a terminal, JSON lines everywhere else."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Self, TextIO

import orjson
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from consumer.standing import Proof, Stage, Standing

if TYPE_CHECKING:
    from collections.abc import Iterable

_EVERY_SECONDS = 5.0
_NAMED = 20


class Bars:
    """One bar a resource: share of its snapshot, records and rate, then what changes bring."""

    def __init__(self, console: Console) -> None:
        """Draw nothing before the first report."""
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[told]}"),
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

    def show(self, standing: Standing) -> None:
        """Bring a resource's bar up to date."""
        name = standing.resource
        if name not in self._tasks:
            self._started[name] = time.monotonic()
            self._tasks[name] = self._progress.add_task(f"{name:13}", total=None, told="")
        is_counted = standing.stage is Stage.SNAPSHOT
        total, done = (max(standing.total, standing.done, 1), standing.done) if is_counted else (1, 1)
        self._progress.update(self._tasks[name], total=total, completed=done, told=self._told(standing))

    def _told(self, standing: Standing) -> str:
        if standing.note:
            return f"[yellow]{escape(standing.note)}[/yellow]"
        if standing.stage is not Stage.SNAPSHOT:
            return f"{', '.join(_counted(standing)) or 'nothing new'} ({standing.stage})"
        seconds = max(time.monotonic() - self._started[standing.resource], 0.001)
        rate = (standing.done - standing.resumed_at) / seconds
        return f"{standing.done:,} of {standing.total:,}, {rate:,.0f}/s ({standing.stage})"

    def finish(self, standings: Iterable[Standing]) -> None:
        """Say what came of each resource."""
        for standing in standings:
            self._console.print(sentence(standing), highlight=False, soft_wrap=True, markup=False)


def sentence(standing: Standing) -> str:
    """Return what came of one resource in one line."""
    told = ", ".join([f"{standing.records:,} records", *_counted(standing)])
    return f"{standing.resource}: {told}; {standing.proof}{differing(standing)}"


def _counted(standing: Standing) -> list[str]:
    counts = {
        "changed": standing.changed,
        "removed": standing.removed,
        "snapshot" if standing.snapshots == 1 else "snapshots": standing.snapshots,
    }
    return [f"{count:,} {name}" for name, count in counts.items() if count]


def differing(standing: Standing) -> str:
    """Return the identifiers that differed, the first of many, behind a colon; nothing where none did."""
    if standing.proof not in {Proof.MENDED, Proof.DIFFERENT} or not standing.different:
        return ""
    more = len(standing.different) - _NAMED
    return f": {', '.join(standing.different[:_NAMED])}{f' and {more:,} more' if more > 0 else ''}"


class JsonLines:
    """One line per change of stage or note, one every five seconds in between, and one for the summary."""

    def __init__(self, stream: TextIO) -> None:
        """Write to a stream that is the caller's."""
        self._stream = stream
        self._said: dict[str, tuple[Stage, str | None]] = {}
        self._written = 0.0

    def __enter__(self) -> Self:
        """Nothing to start."""
        return self

    def __exit__(self, *_details: object) -> None:
        """Nothing to stop."""

    def show(self, standing: Standing) -> None:
        """Write the standing unless it says nothing new."""
        said = (standing.stage, standing.note)
        if said == self._said.get(standing.resource) and time.monotonic() - self._written < _EVERY_SECONDS:
            return
        self._said[standing.resource], self._written = said, time.monotonic()
        self._write({"event": "progress", **_plain(standing)})

    def finish(self, standings: Iterable[Standing]) -> None:
        """Write the summary."""
        self._write({"event": "summary", "resources": {one.resource: _plain(one) for one in standings}})

    def _write(self, event: dict[str, object]) -> None:
        self._stream.write(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE).decode())
        self._stream.flush()


def _plain(standing: Standing) -> dict[str, object]:
    return asdict(standing) | {"different": standing.different[:1000]}


def display(*, as_json: bool) -> Bars | JsonLines:
    """Return the display that fits where standard output goes."""
    console = Console()
    return Bars(console) if console.is_terminal and not as_json else JsonLines(sys.stdout)
