"""The report of a run: counts per resource, updated while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum


class RunStage(StrEnum):
    """The stage of the work on a resource."""

    WAITING = "waiting"
    ABSENT = "absent"  # the source does not have the resource
    READING = "reading"
    READ = "read"  # into a mirror
    COMPARING = "comparing"  # records that the source lacks, and the gate
    FINISHING = "finishing"  # merge, replica
    SWAPPING = "swapping"  # updates since the start, stamps, alias
    SWAPPED = "swapped"
    UPDATED = "updated"
    CHECKED = "checked"  # dry run
    REFUSED = "refused"


@dataclass
class ResourceReport:
    """One resource's counts. At the end `read` is `indexed` + `unchanged` + `stale` + `dead`."""

    resource: str
    stage: RunStage = RunStage.WAITING
    generation: str | None = None
    previous: str | None = None
    resumed_at: int = 0  # the line after which an interrupted build resumed
    read: int = 0  # envelopes
    indexed: int = 0  # envelopes that created, changed or deleted a record
    unchanged: int = 0  # envelopes with the content that the index has
    stale: int = 0  # envelopes older than the index, or than another one in the source
    dead: int = 0  # envelopes in the dead-letter file
    vanished: int = 0  # records that a full source lacks, replaced by tombstones
    carried: int = 0  # records newer than a full source that lacks them, and older tombstones: carried over
    kept: int = 0  # live records whose line in a full source is unreadable: they stay as they are
    documents: int = 0  # live records at the end
    tombstones: int = 0
    rounded: int = 0  # numbers that lost a fraction
    corrected: int = 0  # OnMarket values that contradicted Status
    retries: int = 0  # requests
    bytes_read: int = 0  # stored bytes, compressed or not
    bytes_total: int = 0  # 0 if unknown
    seconds: float = 0.0
    dead_letters: str | None = None
    note: str | None = None  # what the run is waiting for
    refusal: str | None = None
    overridden: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def resumable_counts(self) -> dict[str, int]:
        """The counts that a checkpoint stores for a resumed run."""
        names = ("read", "indexed", "unchanged", "stale", "vanished", "carried", "kept", "rounded", "corrected")
        return {name: getattr(self, name) for name in names}


OnProgress = Callable[[ResourceReport], None]


def ignore_progress(_report: ResourceReport) -> None:
    """Ignore a progress report."""


@dataclass
class RunSummary:
    """The outcome of a run."""

    resources: list[ResourceReport] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # other than rejected records

    def report_for(self, alias: str) -> ResourceReport:
        """Return the report of a resource by its alias."""
        return next(report for report in self.resources if report.resource == alias)

    @property
    def exit_code(self) -> int:
        """1 if there are dead letters, refused swaps or other problems, else 0."""
        return int(bool(self.problems) or any(report.dead or report.refusal for report in self.resources))
