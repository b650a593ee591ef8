"""What becomes of a draft beside what an index already holds: one order of all states of a record decides."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from mappings.document import Reason

if TYPE_CHECKING:
    from indexer.documents import Draft
    from indexer.scan import Row


class Fate(Enum):
    """The three ways a draft can go."""

    FRESH = "fresh"  # it appears or its content changes: it is written under a new stamp
    UNCHANGED = "unchanged"  # its content is known: it is written with its new version, under the stamp it has
    STALE = "stale"  # the index knows better


def fate(draft: Draft, known: Row | None) -> Fate:
    """Return what becomes of a draft. States are ordered by version, then by content, so that ties end in one state."""
    if known is None:
        return Fate.FRESH
    if (draft.version, draft.content) < (known.version, known.content):
        return Fate.STALE
    is_same = draft.content == known.content and draft.is_tombstone == known.deleted
    return Fate.UNCHANGED if is_same else Fate.FRESH


def fate_in_rebuild(draft: Draft, known: Row | None) -> Fate:
    """Return what becomes of a draft of a full source.

    Such a source has the last word on its moment: of two contents with the same `updated_at` its own is taken, and what
    only an earlier one lacked is there again.
    """
    if known is None or known.reason == Reason.VANISHED:
        return Fate.FRESH
    if known.deleted or draft.is_tombstone or known.version >> 10 != draft.version >> 10:
        return fate(draft, known)
    return Fate.UNCHANGED if draft.content == known.content else Fate.FRESH


def newest(drafts: list[Draft]) -> dict[str, Draft]:
    """Return the newest draft of each record, in the order in which the records first appear."""
    found: dict[str, Draft] = {}
    for draft in drafts:
        other = found.get(draft.id)
        if other is None or (draft.version, draft.content) > (other.version, other.content):
            found[draft.id] = draft
    return found
