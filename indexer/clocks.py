"""The indexer's stamps: a clock to filter by and a sequence, given to what is new or changed and to nothing else."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from cluster.control import Mark

if TYPE_CHECKING:
    from elasticsearch import AsyncElasticsearch

    from indexer.documents import Draft


class Known(NamedTuple):
    """What a live document says about its last change."""

    content: int
    clock: int
    sequence: int


def now() -> int:
    """Return the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@dataclass
class Stamps:
    """Gives stamps above everything published, or, in the first build of a resource, the source's own times.

    `mark` is None in that first build.
    """

    mark: Mark | None
    clock: int = field(init=False)
    sequence: int = field(init=False)

    def __post_init__(self) -> None:
        """Start at the mark."""
        self.clock = self.mark.clock if self.mark else 0
        self.sequence = self.mark.sequence if self.mark else 0

    def give(self, draft: Draft, known: Known | None) -> tuple[int, int]:
        """Return clock and sequence of a document (decisions, `updated_since` clock)."""
        if known is not None and known.content == draft.content:
            return known.clock, known.sequence
        self.sequence += 1
        clock = min(draft.stamped_at, now()) if self.mark is None else max(now(), self.mark.clock + 1)
        self.clock = max(self.clock, clock)
        return clock, self.sequence

    def published(self, generation: str) -> Mark:
        """Return the mark to publish: at or above every stamp given, and not behind the present."""
        epoch = self.mark.epoch if self.mark else 0
        return Mark(clock=max(self.clock, now()), sequence=self.sequence, epoch=epoch, generation=generation)


async def baseline(client: AsyncElasticsearch, live: str | None, mark: Mark | None) -> Mark | None:
    """Return the mark to stamp above.

    A run that died between swap and mark has left stamps above the mark in the live generation: they count too.
    """
    if live is None:
        return mark
    highest = {name: {"max": {"field": name}} for name in ("clock", "sequence")}
    found = (await client.search(index=live, size=0, aggs=highest))["aggregations"]
    clock, sequence = (int(found[name]["value"] or 0) for name in ("clock", "sequence"))
    if mark is None:
        return Mark(clock=clock, sequence=sequence, epoch=0, generation=live)
    return Mark(max(mark.clock, clock), max(mark.sequence, sequence), mark.epoch, mark.generation)


async def look_up(client: AsyncElasticsearch, live: str, identifiers: list[str]) -> dict[str, Known]:
    """Return what the live generation knows of the given records, from doc values alone."""
    answer = await client.search(
        index=live,
        query={"bool": {"filter": {"terms": {"id": identifiers}}}},
        docvalue_fields=[{"field": name} for name in ("id", *Known._fields)],
        stored_fields="_none_",
        size=len(identifiers),
    )
    return {hit["fields"]["id"][0]: _known(hit["fields"]) for hit in answer["hits"]["hits"]}


def _known(fields: dict[str, list[Any]]) -> Known:
    return Known(fields["content"][0], fields["clock"][0], fields["sequence"][0])
