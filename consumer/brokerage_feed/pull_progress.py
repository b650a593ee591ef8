"""The status of each resource during a pull, and its display as lines of JSON; `pull_bars` draws bars."""

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
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
