"""The ledger of events: one number for every change of every resource, made of the marks (decision 13).

A *publication* says that a resource's sequences `after`..`upto` are the events from `base` on. They are only ever
appended, so an event's number never changes and everything that is told later has a higher one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.control import Mark

HEAD_ID = "events"
# Publications of one archive; the head, which is written again with each publication, has few more at most.
ARCHIVED_TOGETHER = 500
# As many publications are held in 16 MB. Above them everything is told once more, in a publication a resource.
MOST_PUBLICATIONS = 1_000_000


class Publication(msgspec.Struct, frozen=True, array_like=True):
    """The document of a resource's `alias` that has the sequence s in (after, upto] is event base + s - after."""

    alias: str
    after: int
    upto: int
    base: int

    @property
    def end(self) -> int:
        """The number of its last event."""
        return self.base + self.upto - self.after


class Reach(msgspec.Struct, frozen=True, array_like=True):
    """How far a resource is told: up to a sequence of an epoch. What it has with a base below `begin` is void."""

    epoch: int
    upto: int
    begin: int


class Head(msgspec.Struct, frozen=True):
    """The ledger but for what is archived: the document that is replaced under compare-and-set.

    `end` is the highest number given. `publications` are the newest, in the order of their bases; the archives
    `first`..`archived` - 1 have those before, ARCHIVED_TOGETHER each. Who has read less far than `void`, but something,
    may hold records that a rollback took back without a tombstone.
    """

    end: int = 0
    void: int = 0
    first: int = 0
    archived: int = 0
    reaches: dict[str, Reach] = {}
    publications: tuple[Publication, ...] = ()

    @property
    def count(self) -> int:
        """The number of publications that are kept."""
        return (self.archived - self.first) * ARCHIVED_TOGETHER + len(self.publications)


class Archive(msgspec.Struct, frozen=True):
    """Publications that no longer change. What is written under a number is the same whoever writes it and when."""

    publications: tuple[Publication, ...]


def archive_id(number: int) -> str:
    """Return the id of the document that holds an archive."""
    return f"{HEAD_ID}-{number:06}"


def cut(head: Head) -> tuple[Head, Archive | None]:
    """Return a head without what is due for the archive `head.archived`, and that; None where nothing is due.

    The last publication may still grow: it stays. What follows a head where something is due always has it cut, so
    that there is one head alone whose archive has that number.
    """
    if len(head.publications) <= ARCHIVED_TOGETHER:
        return head, None
    old, new = head.publications[:ARCHIVED_TOGETHER], head.publications[ARCHIVED_TOGETHER:]
    return replace(head, publications=new, archived=head.archived + 1), Archive(old)


def advance(head: Head, marks: Mapping[str, Mark]) -> Head:
    """Return the ledger that tells everything up to published marks, by alias; the same one where it does already.

    Any mark that was ever published may be given, in any order: one that is told already changes nothing. The resource
    that was told last comes first, since its publication can grow.
    """
    last, told = head.publications[-1].alias if head.publications else "", head
    for alias in sorted(marks, key=lambda each: each != last):
        told = _reached(told, alias, marks[alias])
    return _afresh(told) if told.count > MOST_PUBLICATIONS else told


def _reached(head: Head, alias: str, mark: Mark) -> Head:
    reach = head.reaches.get(alias)
    if reach is None:
        return _appended(head, alias, Reach(mark.epoch, 0, head.end), mark.sequence)
    if mark.epoch > reach.epoch:
        voided = replace(head, void=head.end + 1)
        return _appended(voided, alias, Reach(mark.epoch, 0, head.end), mark.sequence)
    if mark.epoch < reach.epoch or mark.sequence <= reach.upto:
        return head
    return _appended(head, alias, reach, mark.sequence)


def _appended(head: Head, alias: str, reach: Reach, upto: int) -> Head:
    """Tell of a resource from where it was told to, up to a sequence."""
    told = Publication(alias, reach.upto, upto, head.end)
    before = head.publications
    if before and (before[-1].alias, before[-1].upto) == (alias, told.after):
        before, told = before[:-1], replace(before[-1], upto=upto)
    return replace(
        head,
        end=told.end,
        reaches=head.reaches | {alias: replace(reach, upto=upto)},
        publications=(*before, told) if told.upto > told.after else before,
    )


def _afresh(head: Head) -> Head:
    """Tell everything once more, and forget every publication before."""
    fresh = replace(head, first=head.archived, publications=())
    for alias, reach in head.reaches.items():
        fresh = _appended(fresh, alias, Reach(reach.epoch, 0, fresh.end), reach.upto)
    return fresh
