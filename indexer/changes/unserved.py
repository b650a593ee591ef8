"""The records of an update that are not served as its lines have them, and why."""

from enum import StrEnum

from indexer.clock import version_microseconds, version_time
from indexer.documents.builder import PendingDocument
from indexer.reporting.report import UnservedKind
from indexer.scan import IndexRow
from mappings.stored_document import TombstoneReason

# Identifiers are remembered as hashes, at about 70 bytes each. Beyond, all are forgotten: a line that is older than
# another one of its source, and so far behind it, then counts as not served.
_MAX_REMEMBERED = 500_000
_MAX_EXAMPLES = 3


class UnservedReason(StrEnum):
    """Why a record is not served as its newest line in the source has it."""

    OLDER = "older than the live record"
    AMBIGUOUS = (
        "older than the live record, if a time in the hour that comes twice is read as `ambiguous` of the map says: "
        "without it, the line that arrives last is served"
    )
    TIED = "dated like the live record, whose content differs: give the changed record a later updated_at"
    DELETED = "not newer than the deletion of the record"
    REMOVED = "older than the record that a rebuild removed because its source lacked it"
    UNREADABLE = "older than a line of the record that could not be read, for which the record was withdrawn"
    MERGED = "one of several different lines with the same identifier and the same updated_at, of which one is served"


class UnservedRecords:
    """The records of one resource in an update that are not served as its lines have them.

    Of several lines of a record the newest counts, in any order.
    """

    def __init__(self) -> None:
        self._served: set[int] = set()
        self._reasons: dict[int, UnservedReason] = {}
        self._counts = dict.fromkeys(UnservedReason, 0)
        self._examples: dict[UnservedReason, dict[int, str]] = {reason: {} for reason in UnservedReason}

    def add_served(self, document: PendingDocument, replaced: IndexRow | None = None) -> None:
        """Note a line that is live now, and the live state that it replaced."""
        key = self._key(document)
        if key in self._served and replaced is not None and _contradicts(document, replaced):
            self._add(key, UnservedReason.MERGED, document, replaced)
        else:
            self._serve(key)

    def add_stale(self, document: PendingDocument, live: IndexRow) -> None:
        """Note a line that the live state outranks."""
        key = self._key(document)
        if key in self._served and _contradicts(document, live):
            self._add(key, UnservedReason.MERGED, document, live)
        elif key in self._served or _is_live(document, live):
            self._serve(key)
        elif key not in self._reasons:
            self._add(key, _reason(document, live), document, live)

    def add_repeated(self, document: PendingDocument, newest: PendingDocument) -> None:
        """Note a line that was not applied, because of a newer one of the record."""
        is_same_time = version_microseconds(document.version) == version_microseconds(newest.version)
        if is_same_time and document.content != newest.content and not (document.is_tombstone or newest.is_tombstone):
            self._add(self._key(document), UnservedReason.MERGED, document, newest)

    def kinds(self) -> list[UnservedKind]:
        """Return each reason with its number of records and some examples, the most frequent first."""
        found = [
            UnservedKind(reason.value, count, list(self._examples[reason].values()))
            for reason, count in self._counts.items()
            if count
        ]
        return sorted(found, key=lambda kind: -kind.count)

    def _key(self, document: PendingDocument) -> int:
        if len(self._served) + len(self._reasons) >= _MAX_REMEMBERED:
            self._served.clear()
            self._reasons.clear()
        return hash(document.id)

    def _serve(self, key: int) -> None:
        self._served.add(key)
        if self._reasons.get(key) is not UnservedReason.MERGED:
            self._remove(key)

    def _add(
        self, key: int, reason: UnservedReason, document: PendingDocument, other: IndexRow | PendingDocument
    ) -> None:
        if self._reasons.get(key) is reason:
            return
        self._remove(key)
        self._reasons[key] = reason
        self._counts[reason] += 1
        if len(self._examples[reason]) < _MAX_EXAMPLES:
            self._examples[reason][key] = _example(document, other)

    def _remove(self, key: int) -> None:
        if (reason := self._reasons.pop(key, None)) is not None:
            self._counts[reason] -= 1
            self._examples[reason].pop(key, None)


def _is_live(document: PendingDocument, live: IndexRow) -> bool:
    """Whether the live state is that of the line, apart from members that are not content."""
    if document.is_tombstone or live.deleted:
        return document.is_tombstone and live.deleted
    is_same_time = version_microseconds(document.version) == version_microseconds(live.version)
    return is_same_time and document.content == live.content


def _contradicts(document: PendingDocument, live: IndexRow) -> bool:
    """Whether a line and the live record have the same time and different content."""
    is_same_time = version_microseconds(document.version) == version_microseconds(live.version)
    return is_same_time and document.content != live.content and not (document.is_tombstone or live.deleted)


def _reason(document: PendingDocument, live: IndexRow) -> UnservedReason:
    if live.reason == TombstoneReason.UNREADABLE:
        return UnservedReason.UNREADABLE
    if live.deleted:
        is_removal = live.reason == TombstoneReason.VANISHED
        return UnservedReason.REMOVED if is_removal else UnservedReason.DELETED
    period = document.line.period
    if period is not None and period.has(version_microseconds(live.version)):
        return UnservedReason.AMBIGUOUS
    return UnservedReason.TIED if _contradicts(document, live) else UnservedReason.OLDER


def _example(document: PendingDocument, other: IndexRow | PendingDocument) -> str:
    line = document.line
    times = f"{version_time(document.version)}, served {version_time(other.version)}"
    return f"{document.id} in {line.file}:{line.number} ({times})"
