"""The progress of a pull: bars on a terminal, JSON lines elsewhere or without the extra `progress`."""

import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from importlib.util import find_spec
from typing import Protocol, Self, TextIO

import msgspec

from brokerage_feed.pull_status import PullStage, PullStatus
from brokerage_feed.terminal_text import printable

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
        """Write to a stream, which the caller closes."""
        self._stream = stream
        self._last_shown: dict[str, tuple[PullStage, str | None]] = {}
        self._written = 0.0

    def __enter__(self) -> Self:
        """Do nothing."""
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


def open_display(*, as_json: bool) -> PullDisplay:
    """Return bars if standard output is a terminal that `rich` can draw on, else JSON lines."""
    if as_json or not sys.stdout.isatty() or find_spec("rich") is None:
        return PullProgressLog(sys.stdout)
    # Imported lazily, since its package is an optional dependency.
    from rich.console import Console  # noqa: PLC0415

    from brokerage_feed.pull_bars import PullProgressBars  # noqa: PLC0415

    return PullProgressBars(Console())
