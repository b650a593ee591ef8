"""The report of a run: counts per resource, updated while it runs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from indexer.reporting.fault_tally import FaultKind


class RunStage(StrEnum):
    """The stage of the work on a resource."""

    WAITING = "waiting"
    ABSENT = "absent"  # the source does not have the resource
    READING = "reading"
    READ = "read"  # into a mirror
    COMPARING = "comparing"  # records that the source lacks, and the gate
    BUILT = "built"  # the candidate is loaded and has passed its own gate; it waits for those of the other resources
    FINISHING = "finishing"  # merge, replica
    SWAPPING = "swapping"  # updates since the start, stamps, alias
    SWAPPED = "swapped"
    UPDATED = "updated"
    CHECKED = "checked"  # dry run
    REFUSED = "refused"


@dataclass(frozen=True)
class RoundedField:
    """How many numbers of a field lost a fraction, and the first of them, before and after."""

    field: str
    count: int
    given: float
    whole: int


@dataclass(frozen=True)
class UnservedKind:
    """How many records of an update are not served for a reason, and examples of them."""

    reason: str
    count: int
    examples: list[str]


@dataclass
class ResourceReport:
    """One resource's counts. At the end `read` is `indexed` + `unchanged` + `stale` + `merged` + `dead`."""

    resource: str
    stage: RunStage = RunStage.WAITING
    generation: str | None = None
    previous: str | None = None
    resumed_at: int = 0  # the line after which an interrupted build resumed
    is_taken: bool = False  # the candidate was built and refused by an earlier run
    read: int = 0  # envelopes
    skipped: int = 0  # rows of tables that `skip_if` left out, which are not in `read`
    indexed: int = 0  # envelopes that created, changed or deleted a record
    unchanged: int = 0  # envelopes with the content that the index has
    stale: int = 0  # envelopes older than the index, or in updates than another one in the source
    merged: int = 0  # envelopes of a full source that has a newer one of the same identifier, which is kept
    dead: int = 0  # envelopes in the dead-letter file
    vanished: int = 0  # records that a full source lacks, replaced by tombstones
    carried: int = 0  # records newer than a full source that lacks them, and older tombstones: carried over
    covers: str = ""  # the companies that a build replaces
    others: int = 0  # live records of other companies, which stay as they are
    vanished_companies: dict[str, int] = field(default_factory=dict)  # `vanished` by company, the largest 20
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
    causes: list[FaultKind] = field(default_factory=list)  # the most frequent ones of dead letters
    roundings: list[RoundedField] = field(default_factory=list)  # of `rounded`, since an interruption
    note: str | None = None  # what the run is waiting for
    refusal: str | None = None
    unserved: list[UnservedKind] = field(default_factory=list)  # records of an update, other than those in `dead`
    overridden: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def outcome(self, *, is_refused: bool) -> RunStage:
        """Return the last stage of a build; with `is_refused`, a resource of its run was refused."""
        if self.refusal:
            return RunStage.REFUSED
        return RunStage.BUILT if is_refused else RunStage.SWAPPED

    @property
    def changes(self) -> int:
        """How many records of a full source get a new stamp, about."""
        return self.indexed + self.vanished

    def add_roundings(self, roundings: Iterable[RoundedField]) -> None:
        """Add the rounded numbers of a chunk."""
        known = {each.field: each for each in self.roundings}
        for each in roundings:
            earlier = known.get(each.field)
            known[each.field] = each if earlier is None else replace(earlier, count=earlier.count + each.count)
            self.rounded += each.count
        self.roundings = [*known.values()]

    @property
    def resumable_counts(self) -> dict[str, int]:
        """The counts that a checkpoint stores for a resumed run."""
        names = (
            "read",
            "indexed",
            "unchanged",
            "stale",
            "merged",
            "vanished",
            "carried",
            "kept",
            "rounded",
            "corrected",
        )
        return {name: getattr(self, name) for name in names}


# What `covers` says of a build that replaces everything.
EVERY_COMPANY_COVERED = "all companies"
OnProgress = Callable[[ResourceReport], None]


def ignore_progress(_report: ResourceReport) -> None:
    """Ignore a progress report."""


@dataclass
class RunSummary:
    """The outcome of a run."""

    resources: list[ResourceReport] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # other than rejected records
    missing: list[str] = field(default_factory=list)  # what a replicated source is expected to give and does not
    keys_checked: int | None = None  # of a replication: when the oldest comparison of a key was, in Unix milliseconds

    def report_for(self, alias: str) -> ResourceReport:
        """Return the report of a resource by its alias."""
        return next(report for report in self.resources if report.resource == alias)

    def set_skipped(self, rows: Mapping[str, int]) -> None:
        """Set the numbers of rows that the source left out, by resource."""
        for report in self.resources:
            report.skipped = rows.get(report.resource, 0)

    def resources_at(self, *stages: RunStage) -> list[str]:
        """Return the resources whose work ended at one of some stages."""
        return [report.resource for report in self.resources if report.stage in stages]

    @property
    def exit_code(self) -> int:
        """1 if there are dead letters, records that are not served, refused swaps or other problems, else 0."""
        reports = self.resources
        return int(bool(self.problems) or any(each.dead or each.refusal or each.unserved for each in reports))
