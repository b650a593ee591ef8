"""What a verification finds: how the states of one record on two sides relate, and the outcome for one resource."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from indexer.errors import ItemError
    from indexer.source import Line
    from indexer.verify_sides import Entry

# So many are named of each kind; all are counted.
NAMED = 1_000


class Kind(StrEnum):
    """How a record in the index differs from the reference, a source or an earlier generation."""

    MISSING = "missing"  # in the reference, not in the index
    SURPLUS = "surplus"  # in the index, not in the reference
    DIFFERENT = "different"  # the same version with another content, or an older version in the index
    ALTERED = "altered"  # the same version and content hash, but other bytes are stored
    NEWER = "newer"  # come, changed or deleted since, which is no fault

    @property
    def is_fault(self) -> bool:
        """Whether the index is wrong."""
        return self is not Kind.NEWER


def kind_of(expected: Entry | None, found: Entry | None, taken_at: int) -> Kind | None:
    """Return how a record differs, None where it does not.

    A record that the reference has deleted, or does not have, may be absent from the index or a tombstone there. One
    that is newer than the reference, which was taken at a time in microseconds since 1970, is no fault.
    """
    is_expected, is_found = expected is not None and not expected.deleted, found is not None and not found.deleted
    if not is_expected and not is_found:
        return None
    if found is None:
        return Kind.MISSING
    if found.version > expected.version if expected is not None else found.version >> 10 > taken_at:
        return Kind.NEWER
    if expected is None or expected.deleted:
        return Kind.SURPLUS
    if found.deleted or (found.version, found.content) != (expected.version, expected.content):
        return Kind.DIFFERENT
    return Kind.ALTERED if found.stored != expected.stored else None


class Named(NamedTuple):
    """One record that differs, with its version in the reference and in the index; None where it is not there.

    A version is the microseconds since 1970 of the record's `updated_at`, times 1,024, and ten bits of its content.
    """

    id: str
    expected: int | None
    found: int | None


class Unreadable(NamedTuple):
    """One line of the source that is no usable record."""

    file: str
    line: int
    field: str
    reason: str


@dataclass
class Comparison:
    """One resource, compared. All that is named is counted in full beside it."""

    resource: str
    reference: str  # `the source`, or a generation
    index: str | None  # None where nothing is live, so that nothing is compared
    compared: int = 0  # records that the reference has, deleted ones not counted
    repeated: int = 0  # lines of the source with a newer one of the same record
    unreadable: int = 0  # lines of the source
    seconds: float = 0.0
    counts: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(Kind, 0))
    named: dict[Kind, list[Named]] = field(default_factory=lambda: {kind: [] for kind in Kind})
    unreadable_named: list[Unreadable] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        """Whether the index has everything that the reference has and nothing else, newer records apart."""
        return self.index is not None and not any(count for kind, count in self.counts.items() if kind.is_fault)

    def note(self, kind: Kind, expected: Entry | None, found: Entry | None) -> None:
        """Count a record that differs, and name it while there is room; one side at least has it."""
        self.counts[kind] += 1
        entry = expected or found
        if entry is not None and len(self.named[kind]) < NAMED:
            versions = (side.version if side else None for side in (expected, found))
            self.named[kind].append(Named(entry.id, *versions))

    def note_unreadable(self, line: Line, error: ItemError) -> None:
        """Count a line that is no usable record, and name it while there is room."""
        self.unreadable += 1
        if len(self.unreadable_named) < NAMED:
            self.unreadable_named.append(Unreadable(line.file, line.number, error.field, error.reason))
