"""What a run did: counts per resource, kept while it goes on and handed over at its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum


class Stage(StrEnum):
    """Where the build of a resource stands."""

    WAITING = "waiting"
    ABSENT = "absent"  # the source has nothing for the resource
    READING = "reading"
    FINISHING = "finishing"  # refresh, merge, verification
    SWAPPED = "swapped"
    REFUSED = "refused"


@dataclass
class ResourceReport:
    """One resource's counts. At the end `read` is `accepted` + `superseded` + `bad`."""

    resource: str
    stage: Stage = Stage.WAITING
    generation: str | None = None
    previous: str | None = None
    read: int = 0  # envelopes
    accepted: int = 0  # documents in the new generation, tombstones included
    tombstones: int = 0
    superseded: int = 0  # envelopes with a newer one of the same record
    bad: int = 0
    rounded: int = 0  # numbers that lost a fraction
    corrected: int = 0  # OnMarket values that contradicted Status
    bytes_read: int = 0  # as stored, compressed or not
    bytes_total: int = 0
    seconds: float = 0.0
    dead_letters: str | None = None
    refusal: str | None = None


OnProgress = Callable[[ResourceReport], None]


def ignore(_report: ResourceReport) -> None:
    """Show no progress."""


@dataclass
class Summary:
    """A whole run."""

    resources: list[ResourceReport] = field(default_factory=list)

    def of(self, alias: str) -> ResourceReport:
        """Return the report of a resource by its alias."""
        return next(report for report in self.resources if report.resource == alias)

    @property
    def exit_code(self) -> int:
        """0 when every envelope is served, 1 when some are bad or a swap was refused."""
        return int(any(report.bad or report.refusal for report in self.resources))
