"""The result of a verification: how two states of a record differ, and the differences of a resource."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from indexer.clock import UNDATED, version_microseconds
from indexer.source.lines import RejectedLine
from indexer.verify.sides import RecordState

# Records listed per kind of difference; all are counted.
MAX_NAMED = 1_000


class DifferenceKind(StrEnum):
    """How a record in the index differs from the reference, a source or an earlier generation."""

    MISSING = "missing"  # in the reference, not in the index
    SURPLUS = "surplus"  # in the index, not in the reference
    DIFFERENT = "different"  # the same version with another content, or an older version in the index
    ALTERED = "altered"  # the same version and content hash, but other bytes are stored
    FUTURE = "future"  # in the index, dated later than the clock allows (BROKERAGE_FUTURE_SECONDS)
    KEPT = "kept"  # in the index, unreadable in the reference: not a fault
    NEWER = "newer"  # created, changed or deleted since the reference: not a fault

    @property
    def is_fault(self) -> bool:
        """Whether the index is wrong."""
        return self not in {DifferenceKind.NEWER, DifferenceKind.KEPT}


def classify_difference(
    expected: RecordState | None, found: RecordState | None, taken_at: int
) -> DifferenceKind | None:
    """Return how a record differs, None if it does not.

    A record that the reference lacks or has deleted may be absent from the index or be a tombstone there. One that is
    newer than the reference, as of `taken_at` in microseconds since 1970, is not a fault.
    """
    is_expected, is_found = expected is not None and not expected.deleted, found is not None and not found.deleted
    if not is_expected and not is_found:
        return None
    if found is None or (found.version == UNDATED and is_found):
        return DifferenceKind.MISSING if found is None else DifferenceKind.FUTURE
    if found.version > expected.version if expected is not None else version_microseconds(found.version) > taken_at:
        return DifferenceKind.NEWER
    if expected is None or expected.deleted:
        return DifferenceKind.SURPLUS
    if found.deleted or (found.version, found.content) != (expected.version, expected.content):
        return DifferenceKind.DIFFERENT
    return DifferenceKind.ALTERED if found.stored != expected.stored else None


class RecordDifference(NamedTuple):
    """A record that differs, with its versions in the reference and in the index, None if absent.

    A version is the microseconds since 1970 of the record's `updated_at`, times 1,024, and ten bits of its content.
    """

    id: str
    expected: int | None
    found: int | None


class UnreadableLine(NamedTuple):
    """A line of the source without a valid record."""

    file: str
    line: int
    field: str
    reason: str


@dataclass
class VerificationResult:
    """The comparison of one resource. Counts are complete; lists end at `MAX_NAMED`."""

    resource: str
    reference: str  # `the source`, or a generation
    index: str | None  # None without a live generation: nothing is compared
    covers: str = "all companies"  # those whose records are compared
    compared: int = 0  # live records of the reference
    repeated: int = 0  # lines of the source that repeat a record
    unreadable: int = 0  # lines of the source
    unreachable: int = 0  # live records of earlier versions whose identifier records may not have today
    seconds: float = 0.0
    counts: dict[DifferenceKind, int] = field(default_factory=lambda: dict.fromkeys(DifferenceKind, 0))
    named: dict[DifferenceKind, list[RecordDifference]] = field(
        default_factory=lambda: {kind: [] for kind in DifferenceKind}
    )
    unreadable_records: set[str] = field(default_factory=set)  # those of these lines, as far as they are known
    unreachable_named: list[str] = field(default_factory=list)
    unreadable_named: list[UnreadableLine] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        """Whether the index has exactly the records of the reference, apart from newer ones."""
        return self.index is not None and not any(count for kind, count in self.counts.items() if kind.is_fault)

    def add(self, kind: DifferenceKind, expected: RecordState | None, found: RecordState | None) -> None:
        """Count a difference and list it, up to `MAX_NAMED`; at least one side has the record."""
        entry = expected or found
        if kind is DifferenceKind.SURPLUS and entry is not None and entry.id in self.unreadable_records:
            kind = DifferenceKind.KEPT
        self.counts[kind] += 1
        if entry is not None and len(self.named[kind]) < MAX_NAMED:
            versions = (side.stated_version if side else None for side in (expected, found))
            self.named[kind].append(RecordDifference(entry.id, *versions))

    def add_unreachable(self, identifier: str) -> None:
        """Count a live record that cannot be requested by its identifier, and list it, up to `MAX_NAMED`."""
        self.unreachable += 1
        if len(self.unreachable_named) < MAX_NAMED:
            self.unreachable_named.append(identifier)

    def add_unreadable(self, item: RejectedLine) -> None:
        """Count an invalid line and list it, up to `MAX_NAMED`."""
        self.unreadable += 1
        self.unreadable_records |= item.identifiers or frozenset()
        if len(self.unreadable_named) < MAX_NAMED:
            line, error = item.line, item.error
            self.unreadable_named.append(UnreadableLine(line.file, line.number, error.field, error.reason))
