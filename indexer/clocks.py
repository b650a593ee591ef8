"""The indexer's stamps: a clock to filter by and a sequence, given to what is new or changed and to nothing else."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from msgspec import structs

from cluster.control import Mark
from indexer.fate import Fate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elasticsearch import AsyncElasticsearch

    from indexer.documents import Draft
    from indexer.scan import Row

Stamp = tuple[int, int]  # clock in milliseconds since 1970, sequence

# Sequences from here on say that a document of a candidate waits for its stamp; the rest is its place among those.
PROVISIONAL = 2**62
# In front of the places of the lines of a source: departures, then what was told otherwise while it was read.
DEPARTED, OVERRULED = PROVISIONAL, PROVISIONAL + 1
# Behind them the one of all records that it lacks, and before that of those that must come behind their departures.
VANISHED = PROVISIONAL + 2**61
RETOLD = VANISHED - 1


def now() -> int:
    """Return the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Stamper(Protocol):
    """Whatever gives a draft its stamp."""

    def give(self, draft: Draft, fate: Fate, known: Row | None) -> Stamp:
        """Return the stamp under which a draft is written."""


class SourceStamps:
    """The first build of a resource: the source's own times, capped at the present, in the order of its lines."""

    def give(self, draft: Draft, _fate: Fate, _known: Row | None) -> Stamp:
        """Return the source's time (decisions, `updated_since` clock)."""
        return min(draft.stamped_at, now()), draft.line.number


class CarriedStamps:
    """A rebuild: what is unchanged carries its stamp, the rest waits for the one it gets right before the swap."""

    def give(self, draft: Draft, fate: Fate, known: Row | None) -> Stamp:
        """Return the stamp of the live document, or a place in the queue for one."""
        if known is not None and fate is Fate.UNCHANGED:
            return known.clock, known.sequence
        return 0, OVERRULED + draft.line.number


@dataclass
class Stamps:
    """Changes of what is live: every stamp lies above the mark that was published last."""

    mark: Mark
    sequence: int = 0
    clock: int = 0

    def __post_init__(self) -> None:
        """Start at the mark."""
        self.sequence = self.mark.sequence
        self.clock = self.mark.clock

    def fresh(self) -> Stamp:
        """Return a stamp above everything published."""
        self.sequence += 1
        self.clock = max(self.clock, now(), self.mark.clock + 1)
        return self.clock, self.sequence

    def give(self, _draft: Draft, fate: Fate, known: Row | None) -> Stamp:
        """Return the stamp that an unchanged record has, or a fresh one."""
        if known is not None and fate is Fate.UNCHANGED:
            return known.clock, known.sequence
        return self.fresh()

    def published(self, generation: str, *, epoch: int | None = None) -> Mark:
        """Return the mark to publish, at or above every stamp given and not behind the present, and go on above it."""
        epoch = self.mark.epoch if epoch is None else epoch
        self.clock = max(self.clock, now())
        self.mark = Mark(self.clock, self.sequence, epoch, generation, self.mark.forgotten)
        return self.mark

    def forget(self, sequence: int) -> None:
        """Say with every mark from now on that tombstones up to `sequence` may be gone."""
        self.mark = structs.replace(self.mark, forgotten=max(self.mark.forgotten, sequence))


async def baseline(client: AsyncElasticsearch, indices: Sequence[str], mark: Mark | None) -> Mark:
    """Return the mark to stamp above, of the first of the indices where there is none.

    Stamps above the mark, as a run that died has left them in indices whose writes are visible, count too.
    """
    highest = {name: {"max": {"field": name}} for name in ("clock", "sequence")}
    found = (await client.search(index=indices, size=0, aggs=highest))["aggregations"]
    clock, sequence = (int(found[name]["value"] or 0) for name in ("clock", "sequence"))
    known = mark or Mark(clock=0, sequence=0, epoch=0, generation=indices[0])
    return structs.replace(known, clock=max(known.clock, clock), sequence=max(known.sequence, sequence))
