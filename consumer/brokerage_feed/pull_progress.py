"""The status of each resource during a pull, and its display: lines of JSON for programs, sentences for people."""

import shutil
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol, Self, TextIO

import msgspec

from brokerage_feed.errors import printable


class PullStage(StrEnum):
    """The stage of the work on a resource."""

    WAITING = "waiting"
    SNAPSHOT = "snapshot"
    CHANGES = "changes"
    VERIFYING = "verifying"
    EXPORTING = "exporting"
    CURRENT = "current"
    ABSENT = "absent"  # the service has no data of the resource yet


class VerificationOutcome(StrEnum):
    """The outcome of comparing a copy with the service."""

    NONE = "not verified"
    EQUAL = "equal"
    UNSETTLED = "not settled"
    REPAIRED = "differed, repaired"
    DIFFERENT = "different"


@dataclass
class PullStatus:
    """The counts of one resource since the pull started. `note` is the reason for a retry."""

    resource: str
    stage: PullStage = PullStage.WAITING
    done: int = 0  # records of the current snapshot
    total: int = 0
    resumed_at: int = 0
    records: int = 0
    snapshots: int = 0
    files: int = 0  # published files that were loaded
    changed: int = 0
    removed: int = 0
    proof: VerificationOutcome = VerificationOutcome.NONE
    different: list[str] = field(default_factory=list)
    note: str | None = None


_LOG_INTERVAL_SECONDS = 5.0


class PullDisplay(Protocol):
    """Shows the progress of a pull while its context is open, and a summary afterwards."""

    def __enter__(self) -> Self:
        """Start."""

    def __exit__(self, *_details: object) -> None:
        """Stop."""

    def show(self, status: PullStatus) -> None:
        """Show the status of a resource."""

    def finish(self, statuses: Iterable[PullStatus]) -> None:
        """Show the summary."""


class PullProgressLog:
    """One line per change of stage or note, one every five seconds in between, and one for the summary."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last_shown: dict[str, tuple[PullStage, str | None]] = {}
        self._written = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        """Do nothing."""

    def show(self, status: PullStatus) -> None:
        """Write the status if its stage or note changed or the interval has passed."""
        shown = (status.stage, status.note)
        if shown == self._last_shown.get(status.resource) and time.monotonic() - self._written < _LOG_INTERVAL_SECONDS:
            return
        self._last_shown[status.resource], self._written = shown, time.monotonic()
        self._write({"event": "progress", **_plain(status)})

    def finish(self, statuses: Iterable[PullStatus]) -> None:
        """Write the summary."""
        self._write({"event": "summary", "resources": {status.resource: _plain(status) for status in statuses}})

    def _write(self, event: dict[str, object]) -> None:
        self._stream.write(printable(msgspec.json.encode(event).decode()) + "\n")
        self._stream.flush()


def _plain(status: PullStatus) -> dict[str, object]:
    return asdict(status) | {"different": status.different[:1000]}


_MAX_IDS_SHOWN = 20
_REDRAW_SECONDS = 0.1
_START_OF_LINE = "\r\x1b[K"


class PullProgressText:
    """On a terminal: one line shows the current work; each retry gets a line; the summary says what to do next."""

    def __init__(self, stream: TextIO, directory: Path) -> None:
        self._stream = stream
        self._directory = directory
        self._notes: dict[str, str] = {}
        self._drawn = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        self._stream.write(_START_OF_LINE)

    def show(self, status: PullStatus) -> None:
        """Show the status; a new note gets a line of its own."""
        if status.note and status.note != self._notes.get(status.resource):
            self._line(f"{status.resource}: {status.note}")
        elif status.note is None and time.monotonic() - self._drawn < _REDRAW_SECONDS:
            return
        self._notes[status.resource], self._drawn = status.note or "", time.monotonic()
        counted = f"{status.done:,} of {status.total:,}" if status.total else _counted(status)
        shown = f"{status.resource}: {status.stage} {counted}"[: shutil.get_terminal_size().columns - 1]
        self._stream.write(f"{_START_OF_LINE}{printable(shown)}")
        self._stream.flush()

    def finish(self, statuses: Iterable[PullStatus]) -> None:
        """Print a line for each resource, where the copy is, and a query to try."""
        statuses = list(statuses)
        for status in statuses:
            self._line(_summary_line(status))
        file = self._directory / "copy.sqlite3"
        if any(status.proof is VerificationOutcome.DIFFERENT for status in statuses):
            self._line(f"{file} differs from the service. Run the command again.")
            return
        self._line(f"The copy is {file}. Run the command again to update it, or add --follow.")
        if any(status.records for status in statuses):
            largest = max(statuses, key=lambda status: status.records).resource
            self._line(f'Try: sqlite3 {file} "SELECT count(*) FROM {largest}"')  # noqa: S608 - shown, not run

    def _line(self, text: str) -> None:
        self._stream.write(f"{_START_OF_LINE}{printable(text)}\n")
        self._stream.flush()


_OUTCOMES = {
    VerificationOutcome.EQUAL: "identical to the service",
    VerificationOutcome.NONE: "not verified",
    VerificationOutcome.UNSETTLED: "not verified, because the data kept changing",
    VerificationOutcome.REPAIRED: "differed from the service and was repaired",
    VerificationOutcome.DIFFERENT: "differs from the service",
}


def _summary_line(status: PullStatus) -> str:
    """Return the outcome of one resource in one line."""
    if status.stage is PullStage.ABSENT:
        return f"{status.resource}: the service has no data of it yet"
    records = _number(status.records, "record")
    return f"{status.resource}: {records} ({_counted(status)}), {_OUTCOMES[status.proof]}{_format_differing(status)}"


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _counted(status: PullStatus) -> str:
    """Say what the pull brought."""
    if status.files or status.snapshots:
        source = "files" if status.files else "a snapshot"
        return f"from {source}" + (
            f", then {_number(status.changed + status.removed, 'change')}" if status.changed or status.removed else ""
        )
    counts = {"changed": status.changed, "removed": status.removed}
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "no changes"


def _format_differing(status: PullStatus) -> str:
    """Return a colon and the first differing identifiers, or nothing if there are none."""
    if status.proof not in {VerificationOutcome.REPAIRED, VerificationOutcome.DIFFERENT} or not status.different:
        return ""
    more = len(status.different) - _MAX_IDS_SHOWN
    return f": {', '.join(status.different[:_MAX_IDS_SHOWN])}{f' and {more:,} more' if more > 0 else ''}"
