"""Classifies a document against what the index has: all states of a record are totally ordered."""

from enum import Enum
from typing import Protocol

from indexer.clock import UNDATED, version_microseconds
from indexer.documents.builder import PendingDocument
from indexer.indices.scan import IndexRow
from mappings.stored_document import TombstoneReason


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


def is_outdated(state: _State, known: IndexRow) -> bool:
    """Whether a state is older than the indexed one.

    A record that a full source lacked was not deleted at a time: every state of the record's own moment restores it.
    """
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
    record that was missing only from an earlier source is restored.
    """
    if known is None or known.reason == TombstoneReason.VANISHED:
        return ChangeKind.CHANGED
    is_other_time = version_microseconds(known.version) != version_microseconds(document.version)
    if known.deleted or document.is_tombstone or is_other_time:
        return change_kind(document, known)
    return ChangeKind.UNCHANGED if document.content == known.content else ChangeKind.CHANGED


def at_live_time(document: PendingDocument, known: IndexRow | None) -> PendingDocument:
    """Return a document of a source without times under the time that its content gives it; others as they are.

    With the content of the live record it keeps that record's time. With another content it is later, even if the live
    record has a time after this run's.
    """
    if document.redated is None or known is None or known.deleted or known.version == UNDATED:
        return document
    live = version_microseconds(known.version)
    if document.content == known.content:
        kept = document.redated(live)
        # The members that are not content may have changed: that state is the newer one.
        return kept if kept.version >= known.version else document.redated(live + 1)
    return document if document.version > known.version else document.redated(live + 1)


def newest_by_id(documents: list[PendingDocument]) -> dict[str, PendingDocument]:
    """Return the newest document of each record, in the order in which the records first appear."""
    newest: dict[str, PendingDocument] = {}
    for document in documents:
        other = newest.get(document.id)
        if other is None or (document.version, document.content) > (other.version, other.content):
            newest[document.id] = document
    return newest
