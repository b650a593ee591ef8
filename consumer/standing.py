"""Where the copy of each resource stands, for those who watch, and what came of it in the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Stage(StrEnum):
    """What is being done for a resource."""

    WAITING = "waiting"
    SNAPSHOT = "snapshot"
    CHANGES = "changes"
    VERIFYING = "verifying"
    EXPORTING = "exporting"
    CURRENT = "current"


class Proof(StrEnum):
    """What is known of a copy: nothing yet, that it is equal, that it was not, or that it changes too fast to say."""

    NONE = "not verified"
    EQUAL = "equal"
    UNSETTLED = "not settled"
    MENDED = "differed, mended"
    DIFFERENT = "different"


@dataclass
class Standing:
    """Of one resource, since the pull began. `note` says why it waits, if it does."""

    resource: str
    stage: Stage = Stage.WAITING
    done: int = 0  # records of the snapshot under way
    total: int = 0
    resumed_at: int = 0
    records: int = 0
    snapshots: int = 0
    changed: int = 0
    removed: int = 0
    proof: Proof = Proof.NONE
    different: list[str] = field(default_factory=list)
    note: str | None = None
