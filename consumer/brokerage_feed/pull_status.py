"""The status of the copy of each resource during and after a pull."""

from dataclasses import dataclass, field
from enum import StrEnum


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
