"""What happened in the runs: counts over all runs, and the steps, errors and refusals of the present one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

_SHOWN_CHARACTERS = 300  # of a text from outside


@dataclass
class RunLog:
    """Counts of all runs, and the events of one."""

    counts: Counter[str] = field(default_factory=Counter)
    events: list[str] = field(default_factory=list)

    def begin(self) -> None:
        """Begin another run."""
        self.counts["runs"] += 1
        self.events = []

    def add(self, name: str, detail: object = "") -> None:
        """Count an event, and keep it with its details."""
        self.counts[name] += 1
        shown = str(detail)[:_SHOWN_CHARACTERS]
        self.events.append(f"{name}: {shown}" if shown else name)
