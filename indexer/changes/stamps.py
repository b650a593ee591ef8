"""Stamps: a clock to filter by and a sequence, assigned to what is new or changed only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec import structs

from cluster.control_index import Mark
from indexer.changes.change_kind import ChangeKind
from indexer.clock import now_milliseconds
from indexer.context import IndexerContext
from indexer.control.lives import StoredIdentities, begin_life
from indexer.documents.builder import PendingDocument
from indexer.indices.complete_search import search_completely
from indexer.indices.scan import IndexRow

Stamp = tuple[int, int]  # clock in milliseconds since 1970, sequence

# A document of a candidate with a sequence from here on is pending; the rest is its position in that queue.
PENDING = 2**62
# Before the positions of the source's lines: moves, then records that were updated otherwise during the load.
PENDING_MOVE, PENDING_SUPERSEDED = PENDING, PENDING + 1
# After them: records that must follow their moves, then all records that the source lacks.
PENDING_VANISHED = PENDING + 2**61
PENDING_REPUBLISHED = PENDING_VANISHED - 1


class Stamper(Protocol):
    """Assigns stamps to documents."""

    def stamp_for(self, document: PendingDocument, kind: ChangeKind, known: IndexRow | None) -> Stamp:
        """Return the stamp under which a document is written."""


class SourceStamps:
    """Stamps of a resource's first build: the source's own times, capped at the present, in the order of its lines."""

    def stamp_for(self, document: PendingDocument, _kind: ChangeKind, _known: IndexRow | None) -> Stamp:
        """Return the source's time (decisions, `updated_since` clock)."""
        return min(document.updated_milliseconds, now_milliseconds()), document.line.position


class CarriedStamps:
    """Stamps of a rebuild: unchanged documents keep theirs, all others are pending until just before the swap."""

    def stamp_for(self, document: PendingDocument, kind: ChangeKind, known: IndexRow | None) -> Stamp:
        """Return the stamp of the live document, or a pending position."""
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

    def begin_life(self, latest_mark: int) -> None:
        """Declare in every later mark that the data do not continue those before (`indexer.control.lives`).

        `latest_mark` is the latest clock of a mark that readers may have.
        """
        self.mark = begin_life(self.mark, StoredIdentities(self.mark.control, self.mark.index, latest_mark))
        self.clock = max(self.clock, self.mark.clock)

    def raise_forgotten(self, sequence: int) -> None:
        """Declare in every later mark that tombstones up to `sequence` may be gone."""
        self.mark = structs.replace(self.mark, forgotten=max(self.mark.forgotten, sequence))


async def baseline_mark(context: IndexerContext, indices: Sequence[str], mark: Mark) -> Mark:
    """Return the mark to stamp above: `mark`, or the highest stamps of the indices if they are higher.

    Stamps above the mark that an interrupted run left in the indices count too; these must be refreshed.
    """
    highest = {name: {"max": {"field": name}} for name in ("clock", "sequence")}
    seconds = context.settings.retry_seconds
    maxima = (await search_completely(context.client, indices, seconds, size=0, aggs=highest))["aggregations"]
    clock, sequence = (int(maxima[name]["value"] or 0) for name in ("clock", "sequence"))
    return structs.replace(mark, clock=max(mark.clock, clock), sequence=max(mark.sequence, sequence))
