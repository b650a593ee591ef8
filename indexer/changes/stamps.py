"""What a document changes, and its stamp: a clock to filter by and a sequence, assigned to what is new or changed only.

All states of a record are totally ordered. No run takes a record from a company that it does not cover. Tombstones are
kept until no late update is expected, and no consumer is promised to receive them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import structs

from cluster.control_index import Mark
from indexer.clock import UNDATED, ClockWatch, now_milliseconds, version_microseconds
from indexer.control import MarkStore, StoredIdentities, begin_epoch, first_mark
from indexer.documents.builder import PendingDocument
from indexer.documents.companies import Coverage
from indexer.documents.normalizer import member_getter
from indexer.scan import IndexRow
from indexer.settings import IndexerContext
from mappings import Resource
from mappings.history import Past, Replaced, decode_past
from mappings.stored_document import (
    CREATED,
    TombstoneReason,
    change_number,
    lacking_members,
    search_value,
    split_change,
)


class ChangeKind(Enum):
    """How a document relates to the indexed state of its record."""

    CHANGED = "fresh"  # new, or its content changed: written under a new stamp
    UNCHANGED = "unchanged"  # the same content: written with its new version, under the stamp it has
    STALE = "stale"  # the index has a newer state


class _State(Protocol):
    @property
    def version(self) -> int: ...
    @property
    def content(self) -> int: ...
    @property
    def reason(self) -> str | None: ...


def is_outdated(state: _State, known: IndexRow) -> bool:
    """Whether a state is older than the indexed one.

    A record that a full source lacked was not deleted at a time: every state of the record's own moment restores it.
    States of one version differ by the names of agents and offices if the source lacks these: the later write counts.
    """
    if state.version == known.version and (lacking_members(state.reason) or lacking_members(known.reason)):
        return False
    is_removal = known.reason == TombstoneReason.VANISHED
    if is_removal and version_microseconds(state.version) == version_microseconds(known.version):
        return False
    return (state.version, state.content) < (known.version, known.content)


def change_kind(document: PendingDocument, known: IndexRow | None) -> ChangeKind:
    """Classify a document. States are ordered by version, then by content, so ties have one outcome."""
    if known is None:
        return ChangeKind.CHANGED
    if is_outdated(document, known):
        return ChangeKind.STALE
    is_same = document.content == known.content and document.is_tombstone == known.deleted
    return ChangeKind.UNCHANGED if is_same else ChangeKind.CHANGED


def change_kind_in_rebuild(document: PendingDocument, known: IndexRow | None) -> ChangeKind:
    """Classify a document of a full source.

    Such a source is authoritative for its time: of two contents with the same `updated_at` its own is taken, and a
    record that was missing only from an earlier source, or was unreadable there, is restored.
    """
    if known is None or known.reason == TombstoneReason.VANISHED:
        return ChangeKind.CHANGED
    is_other_time = not _is_of_period(document, known)
    is_other_time &= version_microseconds(known.version) != version_microseconds(document.version)
    if known.reason == TombstoneReason.UNREADABLE and not is_other_time:
        return ChangeKind.CHANGED
    if known.deleted or document.is_tombstone or is_other_time:
        return change_kind(document, known)
    return ChangeKind.UNCHANGED if document.content == known.content else ChangeKind.CHANGED


def at_live_time(document: PendingDocument, known: IndexRow | None) -> PendingDocument:
    """Return a document of a source without times under the time that its content gives it; others as they are.

    With the content of the live record it keeps that record's time. With another content it is later, even if the live
    record has a time after this run's.
    """
    if document.line.period is not None or known is None or known.deleted or known.version == UNDATED:
        return document
    return _after(document, known)


def in_order_of_arrival(document: PendingDocument, known: IndexRow | None) -> PendingDocument:
    """Return a document under a time that makes it the newest state, if the live one is of the same period.

    So of a record that changes twice in an hour that comes twice, the last line counts. A withdrawn record stays so: a
    line that is sent again cannot be told from a new one.
    """
    if known is None or known.reason == TombstoneReason.UNREADABLE or not _is_of_period(document, known):
        return document
    return _after(document, known)


def _is_of_period(document: PendingDocument, known: IndexRow) -> bool:
    """Whether a document and the live state are of a period in which the order of arrival counts."""
    period = document.line.period
    return period is not None and period.by_arrival and period.has(version_microseconds(known.version))


def _after(document: PendingDocument, known: IndexRow) -> PendingDocument:
    """Return a document of which the time is open under the live record's time, or a later one if it changes it."""
    if document.redated is None:
        return document
    live = version_microseconds(known.version)
    if document.content == known.content and document.is_tombstone == known.deleted:
        kept = document.redated(live)
        # The members that are not content may have changed: that state is the newer one.
        return kept if kept.version >= known.version else document.redated(live + 1)
    return document if document.version > known.version else document.redated(live + 1)


class Change(NamedTuple):
    """A document as it is written, its kind of change, and the state of its record that the index has."""

    document: PendingDocument
    kind: ChangeKind
    known: IndexRow | None

    @property
    def is_stored(self) -> bool:
        """Whether the index has this very state."""
        known, document = self.known, self.document
        return known is not None and (known.version, known.content) == (document.version, document.content)


def change_of(
    given: PendingDocument,
    known: IndexRow | None,
    kind_of: Callable[[PendingDocument, IndexRow | None], ChangeKind] = change_kind,
) -> Change:
    document = at_live_time(given, known)
    return Change(document, kind_of(document, known), known)


class _Owned(Protocol):
    @property
    def company(self) -> str: ...
    @property
    def content(self) -> int: ...
    @property
    def version(self) -> int: ...


class _Remembered(_Owned, Protocol):
    @property
    def clock(self) -> int: ...
    @property
    def deleted(self) -> bool: ...
    @property
    def changed(self) -> Sequence[int]: ...
    @property
    def past(self) -> str: ...


Parts = tuple[bytes, bytes]  # of a document: its search fields, without the closing brace, and its record


def is_continued(document: _Owned, known: _Remembered) -> bool:
    """Whether a live record follows a known state of itself: it is not restored, nor from another company."""
    return not known.deleted and known.company == document.company and bool(known.changed)


def remember(
    resource: Resource, document: _Owned, parts: Parts, known: _Remembered | None, before: Parts | None
) -> tuple[str, Sequence[int]]:
    """Return `past` and `changed` of a live document that follows a known state, of which `before` are the parts.

    They are not needed for a state of the same content. A record that is new, restored or from another company has no
    past (`mappings.history`).
    """
    if known is None or not is_continued(document, known):
        return "", CREATED
    if document.content == known.content:
        return known.past, known.changed
    if before is None:
        return "", CREATED
    replaced, groups = _replaced(resource, parts, before), resource.change_groups
    at = version_microseconds(max(document.version, 0)) // 1000
    changes = (Replaced(at, number, values) for number, values in replaced.items() if groups[number].remembered)
    sequences = dict(map(split_change, known.changed)) | dict.fromkeys(replaced, 0)
    changed = [change_number(group, sequence) for group, sequence in sequences.items()]
    past = decode_past(known.past) or Past(known.clock)
    return past.followed_by(changes).encode(), changed


def kept_past(context: IndexerContext, past: str) -> str:
    """Return the past of a document without what is older than BROKERAGE_HISTORY_DAYS."""
    if not past or (decoded := decode_past(past)) is None:
        return ""
    return decoded.since(now_milliseconds() - int(context.settings.history_days * _DAY_MILLISECONDS)).encode()


def _replaced(resource: Resource, parts: Parts, before: Parts) -> dict[int, dict[int, Any]]:
    """Return the groups whose members differ, at least that of all others, each with the remembered values before."""
    decode, found = _members_decoder(resource), dict[int, dict[int, Any]]()
    (head, record), (old_head, old_record) = parts, before
    new, old = decode(record), decode(old_record)
    for (number, group), values in zip(resource.change_groups.items(), _group_values(resource), strict=True):
        is_same = values(new) == values(old)
        if is_same and all(search_value(head, name) == search_value(old_head, name) for name in group.search_fields):
            continue
        found[number] = {
            place: msgspec.json.decode(getattr(old, name))
            for place, name in enumerate(group.remembered)
            if getattr(new, name) != getattr(old, name)
        }
    return found or {number: {}}


@cache
def _group_values(resource: Resource) -> list[Callable[[Any], tuple[Any, ...]]]:
    return [member_getter(group.members) for group in resource.change_groups.values()]


@cache
def _members_decoder(resource: Resource) -> Callable[[bytes], Any]:
    absent = {True: msgspec.Raw(b"[]"), False: msgspec.Raw(b"null")}
    members = [(field.name, msgspec.Raw, absent[field.kind.is_list]) for field in resource.stored]
    return msgspec.json.Decoder(msgspec.defstruct("Members", members, gc=False)).decode


def newest_by_id(documents: list[PendingDocument]) -> dict[str, PendingDocument]:
    """Return the newest document of each record, in the order in which the records first appear."""
    newest: dict[str, PendingDocument] = {}
    for document in documents:
        other = newest.get(document.id)
        if other is None or (document.version, document.content) > (other.version, other.content):
            newest[document.id] = document
    return newest


def is_taken(row: IndexRow | None, covered: Coverage) -> bool:
    """Whether a record is live under a company that is not covered."""
    return row is not None and not row.deleted and not covered.includes(row.company)


def split_taken(
    documents: Iterable[PendingDocument], known: Mapping[str, IndexRow], covered: Coverage
) -> tuple[list[PendingDocument], list[tuple[PendingDocument, str]]]:
    """Return the documents that may be written, and the others, each with the reason, which names both companies.

    `known` are the live records. A reason is a sentence without its full stop.
    """
    free: list[PendingDocument] = []
    taken: list[tuple[PendingDocument, str]] = []
    for document in documents:
        row = known.get(document.id)
        if row is not None and is_taken(row, covered):
            taken.append((document, _taken_reason(document, row.company)))
        else:
            free.append(document)
    return free, taken


def _taken_reason(document: PendingDocument, owner: str) -> str:
    return (
        f"{document.id} of {document.company} belongs to the company {owner}, which this run does not cover: "
        f"no two companies may share an identifier; for a record that moves, cover both, with --company {owner} too"
    )


Stamp = tuple[int, int]  # clock in milliseconds since 1970, sequence

# A document of a candidate with a sequence from here on is pending; the rest is its position in that queue.
PENDING = 2**62
# Before the positions of the source's lines: moves, then records that were updated otherwise during the load.
PENDING_MOVE, PENDING_SUPERSEDED = PENDING, PENDING + 1
# After them: records that must follow their moves, then all records that the source lacks.
PENDING_VANISHED = PENDING + 2**61
PENDING_REPUBLISHED = PENDING_VANISHED - 1


def source_stamp(document: PendingDocument, _kind: ChangeKind, _known: IndexRow | None) -> Stamp:
    """Return the stamp in a resource's first build: the source's time, capped at the present, in the order of lines."""
    return min(document.updated_milliseconds, now_milliseconds()), document.line.position


def carried_stamp(document: PendingDocument, kind: ChangeKind, known: IndexRow | None) -> Stamp:
    """Return the stamp in a rebuild: that of an unchanged live document, or a position until just before the swap."""
    if known is not None and kind is ChangeKind.UNCHANGED:
        return known.clock, known.sequence
    return 0, PENDING_SUPERSEDED + document.line.position


@dataclass
class LiveStamps:
    """Stamps of changes to the live generation, all above the last published mark."""

    mark: Mark
    now: Callable[[], int] = now_milliseconds  # raises ClockError if the clock is wrong
    sequence: int = 0
    clock: int = 0

    def __post_init__(self) -> None:
        self.sequence = self.mark.sequence
        self.clock = self.mark.clock

    def next_stamp(self) -> Stamp:
        """Return a stamp above everything published; raise ClockError."""
        self.clock = max(self.clock, self.now(), self.mark.clock + 1)
        self.sequence += 1
        return self.clock, self.sequence

    def stamp_for(self, _draft: PendingDocument, kind: ChangeKind, known: IndexRow | None) -> Stamp:
        """Return the stamp of an unchanged record, or a new one."""
        if known is not None and kind is ChangeKind.UNCHANGED:
            return known.clock, known.sequence
        return self.next_stamp()

    def next_mark(self, generation: str, index: str) -> Mark:
        """Return the mark to publish, at or above every assigned stamp and the present; later stamps are above it.

        `index` is the identity of the generation's index. Raises ClockError.
        """
        self.clock = max(self.clock, self.now())
        self.mark = structs.replace(
            self.mark,
            clock=self.clock,
            sequence=self.sequence,
            generation=generation,
            index=index,
        )
        return self.mark

    def begin_epoch(self, latest_mark: int) -> None:
        """Declare in every later mark that the data do not continue those before (`indexer.control`).

        `latest_mark` is the latest clock of a mark that readers may have.
        """
        self.mark = begin_epoch(self.mark, StoredIdentities(self.mark.control, self.mark.index, latest_mark))
        self.clock = max(self.clock, self.mark.clock)

    def raise_forgotten(self, sequence: int) -> None:
        """Declare in every later mark that tombstones up to `sequence` may be gone."""
        self.mark = structs.replace(self.mark, forgotten=max(self.mark.forgotten, sequence))


async def baseline_mark(context: IndexerContext, indices: Sequence[str], mark: Mark) -> Mark:
    """Return the mark to stamp above: `mark`, or the highest stamps of the indices if they are higher.

    Stamps above the mark that an interrupted run left in the indices count too; these must be refreshed.
    """
    highest = {name: {"max": {"field": name}} for name in ("clock", "sequence")}
    maxima = (await context.cluster.search_completely(indices, size=0, aggs=highest))["aggregations"]
    clock, sequence = (int(maxima[name]["value"] or 0) for name in ("clock", "sequence"))
    return structs.replace(mark, clock=max(mark.clock, clock), sequence=max(mark.sequence, sequence))


async def first_generation_mark(
    mark_store: MarkStore, context: IndexerContext, generation: str, stored: StoredIdentities, clock: ClockWatch
) -> Mark:
    """Return the mark of the first generation, whose stamps are the source's; call before its swap.

    If an earlier first generation is gone, a new epoch begins.
    """
    known = await mark_store.read()
    mark = first_mark(generation, stored) if known is None else begin_epoch(known, stored)
    stamps = LiveStamps(await baseline_mark(context, [generation], mark), clock.now)
    return stamps.next_mark(generation, stored.generation)


_DAY_MILLISECONDS = 86_400_000


def expired_tombstones(context: IndexerContext) -> dict[str, Any]:
    """Return the query for tombstones that are older than BROKERAGE_TOMBSTONE_DAYS."""
    return {
        "bool": {"filter": [{"term": {"deleted": True}}, {"range": {"clock": {"lt": _oldest_kept_clock(context)}}}]}
    }


def is_expired_tombstone(context: IndexerContext, row: IndexRow) -> bool:
    return row.deleted and row.clock < _oldest_kept_clock(context)


def _oldest_kept_clock(context: IndexerContext) -> int:
    return now_milliseconds() - int(context.settings.tombstone_days * _DAY_MILLISECONDS)
