"""What a run did: counts per resource, kept while it goes on and handed over at its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum


class Stage(StrEnum):
    """Where the work on a resource stands."""

    WAITING = "waiting"
    ABSENT = "absent"  # the source has nothing for the resource
    READING = "reading"
    READ = "read"  # into a mirror
    COMPARING = "comparing"  # what the source lacks, the gate
    FINISHING = "finishing"  # merge, replica
    SWAPPING = "swapping"  # updates since the start, stamps, alias
    SWAPPED = "swapped"
    UPDATED = "updated"
    CHECKED = "checked"  # read and checked only
    REFUSED = "refused"


@dataclass
class ResourceReport:
    """One resource's counts. At the end `read` is `indexed` + `unchanged` + `stale` + `dead`."""

    resource: str
    stage: Stage = Stage.WAITING
    generation: str | None = None
    previous: str | None = None
    resumed_at: int = 0  # the line behind which an interrupted build went on
    read: int = 0  # envelopes
    indexed: int = 0  # they made a record appear, change or go
    unchanged: int = 0  # their content was known
    stale: int = 0  # a newer envelope of the record was known, or came in the same source
    dead: int = 0  # they are in the dead-letter file
    vanished: int = 0  # records that a full source lacks: tombstones now
    carried: int = 0  # records and tombstones that a full source lacks and that stay: newer than it, or deleted before
    documents: int = 0  # records that are live at the end
    tombstones: int = 0
    rounded: int = 0  # numbers that lost a fraction
    corrected: int = 0  # OnMarket values that contradicted Status
    retries: int = 0  # requests that had to be sent again
    bytes_read: int = 0  # as stored, compressed or not
    bytes_total: int = 0  # 0 while unknown
    seconds: float = 0.0
    dead_letters: str | None = None
    note: str | None = None  # what is being waited for
    refusal: str | None = None
    overridden: list[str] = field(default_factory=list)

    @property
    def counted(self) -> dict[str, int]:
        """What an interrupted run hands on to the next."""
        names = ("read", "indexed", "unchanged", "stale", "vanished", "carried", "rounded", "corrected")
        return {name: getattr(self, name) for name in names}


OnProgress = Callable[[ResourceReport], None]


def ignore(_report: ResourceReport) -> None:
    """Show no progress."""


@dataclass
class Summary:
    """A whole run."""

    resources: list[ResourceReport] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)  # what is wrong beside the records

    def of(self, alias: str) -> ResourceReport:
        """Return the report of a resource by its alias."""
        return next(report for report in self.resources if report.resource == alias)

    @property
    def exit_code(self) -> int:
        """0 when every envelope is served, 1 when some are bad, a swap was refused or there are complaints."""
        return int(bool(self.complaints) or any(report.dead or report.refusal for report in self.resources))
