"""Records of the live generation that change their shard, because their feed key does (`mappings.shards`).

The new copy is written first, then the copy that it leaves is marked. A run that is killed in between leaves two copies
of which neither is marked; the next session marks the older one before it publishes anything. Once no reader needs it,
pruning deletes the copy that was left.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import msgspec

from indexer.bulk import BulkSender, BulkWrite
from indexer.changes.rewrites import write_all
from indexer.clock import now_milliseconds
from indexer.scan import IndexRow, StoredDocument, copies_of, look_up_rows, scan_documents, scan_rows
from indexer.settings import IndexerContext
from mappings.shards import HIDDEN, Interval, ShardRanges, hide, read_intervals
from mappings.stored_document import stored_feed_key

# Longer than from a stamp to its mark, and than readers use an earlier mark: what was stamped before is seen by all.
_REMEMBERED_MILLISECONDS = 3_600_000


class Crossing(NamedTuple):
    """A record that is about to change its shard at a sequence, and the copy that it leaves."""

    sequence: int
    clock: int
    left: StoredDocument
    key: str  # the new feed key


class _CopyState(msgspec.Struct):
    feed_key: str
    clock: int
    sequence: int
    hidden: list[dict[str, int]] = []
    left: bool = False


_decode = msgspec.json.Decoder(_CopyState).decode
KnownIntervals: TypeAlias = dict[int, tuple[Interval, ...]]  # by shard


@dataclass
class ShardCrossings:
    """The records that changed their shard lately, and in which intervals each of their copies is hidden."""

    ranges: ShardRanges
    _intervals: dict[str, KnownIntervals] = field(default_factory=dict)
    _clocks: dict[str, int] = field(default_factory=dict)  # of the stamps, then of their publication
    _unpublished: set[str] = field(default_factory=set)
    unmarked: set[str] = field(default_factory=set)  # records of which the copy that they leave may not be marked yet

    def crosses(self, before: str, key: str) -> bool:
        """Whether a record changes its shard with its feed key."""
        return self.ranges.shard(before) != self.ranges.shard(key)

    def enter(self, crossing: Crossing) -> KnownIntervals:
        """Hide the copy that a record leaves from its sequence on, and the new one before; return what was known."""
        identifier, key, sequence = crossing.left.id, crossing.key, crossing.sequence
        known = self._intervals.get(identifier, {})
        old, new = self.ranges.shard(stored_feed_key(crossing.left.source)), self.ranges.shard(key)
        arrived = [*known.get(new, (Interval(None, None),))]
        arrived[-1] = Interval(arrived[-1].start, sequence)
        left = (*known.get(old, ()), Interval(sequence, None))
        self._intervals[identifier] = {**known, old: left, new: tuple(arrived)}
        self._clocks[identifier] = crossing.clock
        self._unpublished.add(identifier)
        self.unmarked.add(identifier)
        return known

    def withdraw(self, identifier: str, known: KnownIntervals) -> None:
        """Restore what was known of a record: it was not written."""
        self._intervals[identifier] = known
        self.unmarked.discard(identifier)

    def shown(self, write: BulkWrite) -> BulkWrite:
        """Return the write of a record's present copy, with the intervals that the copy needs."""
        known = self._intervals.get(write.id)
        if not known:
            return write
        intervals = known.get(self.ranges.shard(stored_feed_key(write.source)), ())
        return write._replace(source=hide(write.source, intervals))

    def left_write(self, copy: StoredDocument) -> BulkWrite:
        intervals = self._intervals[copy.id][self.ranges.shard(stored_feed_key(copy.source))]
        return BulkWrite(copy.id, copy.version, hide(copy.source, intervals, has_left=True))

    def forget(self) -> None:
        """Forget the records that no reader can see in two states any more; call after a publication."""
        now = now_milliseconds()
        self._clocks |= dict.fromkeys(self._unpublished & self._clocks.keys(), now)
        self._unpublished.clear()
        oldest = now - _REMEMBERED_MILLISECONDS
        for identifier in [identifier for identifier, clock in self._clocks.items() if clock < oldest]:
            del self._intervals[identifier], self._clocks[identifier]

    def recall(self, copies: Sequence[StoredDocument]) -> list[StoredDocument]:
        """Take the intervals of a record from its copies; return the copies that must still be marked as left."""
        states = [(_decode(copy.source), copy) for copy in copies]
        present, copy = max((pair for pair in states if not pair[0].left), key=lambda pair: pair[0].sequence)
        self._intervals[copy.id] = {
            self.ranges.shard(state.feed_key): read_intervals(state.hidden) for state, _ in states if state.hidden
        }
        self._clocks[copy.id] = present.clock
        unmarked = [(state, crossing) for state, crossing in states if not state.left and state is not present]
        for state, _ in unmarked:
            shard = self.ranges.shard(state.feed_key)
            arrived = read_intervals(present.hidden)[-1].end
            before = self._intervals[copy.id].get(shard, ())
            self._intervals[copy.id][shard] = (*before, Interval(arrived, None))
        return [crossing for _, crossing in unmarked]


async def recall_crossings(
    context: IndexerContext, live: str, crossings: ShardCrossings, sender: BulkSender, published: int
) -> set[str]:
    """Recall the recent crossings of the live generation, which must be refreshed, and finish interrupted ones.

    `published` is the sequence of the last mark. Returns the records that crossed above it: they need new stamps, as
    theirs may be of any age.
    """
    if not crossings.ranges.is_routed:
        return set()
    unpublished = set[str]()
    recent = [
        {"range": {"clock": {"gte": now_milliseconds() - _REMEMBERED_MILLISECONDS}}},
        {"range": {"sequence": {"gt": published}}},
    ]
    arrived: dict[str, Any] = {"bool": {"filter": {"exists": {"field": HIDDEN}}, "should": recent}}
    arrived["bool"]["minimum_should_match"] = 1
    async for page in scan_documents(context, live, query=arrived, order="feed_key"):
        await mark_left(context, live, crossings, sender, {document.id for document in page})
        unpublished |= {document.id for document in page if _decode(document.source).sequence > published}
    return unpublished


async def mark_left(
    context: IndexerContext, live: str, crossings: ShardCrossings, sender: BulkSender, identifiers: set[str]
) -> None:
    """Mark the copies that records have left, as far as the new ones are written. The index must be refreshed."""
    copies = await copies_of(context, live, sorted(identifiers))
    unmarked = [copy for group in _by_id(copies).values() for copy in crossings.recall(group)]
    await write_all(sender, [crossings.left_write(copy) for copy in unmarked])
    crossings.unmarked -= identifiers


def _by_id(copies: Iterable[StoredDocument]) -> Mapping[str, list[StoredDocument]]:
    groups: dict[str, list[StoredDocument]] = {}
    for copy in copies:
        groups.setdefault(copy.id, []).append(copy)
    return groups


async def needless_copies(
    context: IndexerContext, live: str, ranges: ShardRanges, published: int
) -> AsyncIterator[list[IndexRow]]:
    """Yield the left copies of records whose present copy has been visible to every reader for some time.

    `published` is the sequence of the last mark. A record that is gone altogether needs none of its copies.
    """
    if not ranges.is_routed:
        return
    oldest = now_milliseconds() - _REMEMBERED_MILLISECONDS
    async for page in scan_rows(context, live, of_left=True):
        present = await look_up_rows(context, live, sorted({row.id for row in page}))
        unsettled = {row.id for row in present.values() if row.clock >= oldest or row.sequence > published}
        if needless := [row for row in page if row.id not in unsettled]:
            yield needless
