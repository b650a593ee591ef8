"""The event ledger: one number for every change of every resource, derived from the marks (decision 13).

A *publication* maps a range of a resource's sequences to event numbers. Publications are only ever appended, so the
number of an event never changes, and later events have higher numbers.
"""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from cluster.control_index import Mark

HEAD_ID = "events"
# Publications per archive. The head, which is rewritten with each publication, holds at most a few more.
PUBLICATIONS_PER_ARCHIVE = 500
# This many take 16 MB. Beyond, all events are republished, with one publication per resource.
MAX_PUBLICATIONS = 1_000_000


class Publication(msgspec.Struct, frozen=True, array_like=True):
    """The change of `alias` with sequence s, where after < s <= upto, is event base + s - after."""

    alias: str
    after: int
    upto: int
    base: int

    @property
    def end(self) -> int:
        """The number of its last event."""
        return self.base + self.upto - self.after


class PublishedExtent(msgspec.Struct, frozen=True, array_like=True):
    """How far a resource is published: up to `upto` in `epoch`. Publications with a base below `begin` are void."""

    epoch: int
    upto: int
    begin: int


class LedgerHead(msgspec.Struct, frozen=True):
    """The ledger without its archives: the document that is replaced by compare-and-set.

    `end` is the highest assigned number. `publications` are the newest, ordered by base; the archives `first` to
    `archived` - 1 hold the earlier ones, PUBLICATIONS_PER_ARCHIVE each. A reader that started before `void` and has not
    reached it may hold records that a rollback or a restore removed without a tombstone. `control` is the identity of
    the control index (`cluster.index_identity`), empty if unknown.
    """

    end: int = 0
    void: int = 0
    first: int = 0
    archived: int = 0
    reaches: dict[str, PublishedExtent] = {}
    publications: tuple[Publication, ...] = ()
    control: str = ""

    @property
    def count(self) -> int:
        """The number of publications in the head and its archives."""
        return (self.archived - self.first) * PUBLICATIONS_PER_ARCHIVE + len(self.publications)


class LedgerArchive(msgspec.Struct, frozen=True):
    """Publications that no longer change. All writers write the same content for the same archive number."""

    publications: tuple[Publication, ...]


def archive_id(number: int) -> str:
    """Return the id of the document with an archive."""
    return f"{HEAD_ID}-{number:06}"


def split_archive(head: LedgerHead) -> tuple[LedgerHead, LedgerArchive | None]:
    """Return the head without its oldest publications, and the archive of those; None if the head is small enough.

    The last publication may still grow, so it stays in the head. A head that is due for archiving is always split
    before it advances, so the content of archive number `head.archived` is unambiguous.
    """
    if len(head.publications) <= PUBLICATIONS_PER_ARCHIVE:
        return head, None
    old, new = head.publications[:PUBLICATIONS_PER_ARCHIVE], head.publications[PUBLICATIONS_PER_ARCHIVE:]
    return replace(head, publications=new, archived=head.archived + 1), LedgerArchive(old)


def renumbered(head: LedgerHead, number: int) -> LedgerHead:
    """Return the ledger with its next numbers above `number`, and all readers so far before its `void`.

    For a ledger that is new or was restored: a lost one may have used the numbers that it would assign next.
    """
    end = max(head.end, number)
    return replace(head, end=end, void=end + 1)


def advance(head: LedgerHead, marks: Mapping[str, Mark]) -> LedgerHead:
    """Return the ledger with everything up to the published marks (by alias); the same head if nothing is new.

    Idempotent: marks that were applied before, in any order, change nothing. The last published resource comes first,
    since its publication can grow.
    """
    last = head.publications[-1].alias if head.publications else ""
    for alias in sorted(marks, key=lambda alias: alias != last):
        head = _advance_resource(head, alias, marks[alias])
    return _republish_all(head) if head.count > MAX_PUBLICATIONS else head


def _advance_resource(head: LedgerHead, alias: str, mark: Mark) -> LedgerHead:
    reach = head.reaches.get(alias)
    if reach is None:
        return _append(head, alias, PublishedExtent(mark.epoch, 0, head.end), mark.sequence)
    if mark.epoch > reach.epoch:
        voided = replace(head, void=head.end + 1)
        return _append(voided, alias, PublishedExtent(mark.epoch, 0, head.end), mark.sequence)
    if mark.epoch < reach.epoch or mark.sequence <= reach.upto:
        return head
    return _append(head, alias, reach, mark.sequence)


def _append(head: LedgerHead, alias: str, reach: PublishedExtent, upto: int) -> LedgerHead:
    """Publish the changes of a resource after `reach`, up to a sequence."""
    added = Publication(alias, reach.upto, upto, head.end)
    before = head.publications
    if before and (before[-1].alias, before[-1].upto) == (alias, added.after):
        before, added = before[:-1], replace(before[-1], upto=upto)
    return replace(
        head,
        end=added.end,
        reaches=head.reaches | {alias: replace(reach, upto=upto)},
        publications=(*before, added) if added.upto > added.after else before,
    )


def _republish_all(head: LedgerHead) -> LedgerHead:
    """Republish everything, and drop all earlier publications."""
    fresh = replace(head, first=head.archived, publications=())
    for alias, reach in head.reaches.items():
        fresh = _append(fresh, alias, PublishedExtent(reach.epoch, 0, fresh.end), reach.upto)
    return fresh
