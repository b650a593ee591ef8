"""The gate before a swap: the candidate must hold what was read, and be like what it replaces."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from indexer.errors import RefusedError
from indexer.lifecycle import LIVE
from indexer.scan import fetch
from indexer.shares import allowed

if TYPE_CHECKING:
    from indexer.documents import Draft
    from indexer.engine import Engine
    from indexer.job import Job
    from indexer.lifecycle import Lifecycle
    from indexer.settings import IndexerSettings

_SAMPLED = 100
# Spreads the choice over the records without favouring any: an odd constant near 2**64 divided by the golden ratio.
_SPREAD = 0x9E3779B97F4A7C15


@dataclass
class Sample:
    """Some of the drafts that were written, always the same ones of a source, to be compared with what is stored."""

    _kept: list[tuple[int, str, int, bytes]] = field(default_factory=list)

    def offer(self, draft: Draft) -> None:
        """Keep a draft if it is among the chosen."""
        if draft.record is None:
            return
        rank = -((draft.content * _SPREAD) % 2**64)
        if len(self._kept) < _SAMPLED:
            heapq.heappush(self._kept, (rank, draft.id, draft.version, draft.record))
        elif rank > self._kept[0][0]:
            heapq.heapreplace(self._kept, (rank, draft.id, draft.version, draft.record))

    async def differing(self, engine: Engine, index: str) -> list[str]:
        """Return the identifiers whose stored record is not what was sent; a newer one is none of the sample's."""
        found = {document.id: document for document in await fetch(engine, index, [kept[1] for kept in self._kept])}
        return sorted(
            identifier
            for _, identifier, version, record in self._kept
            if (stored := found.get(identifier)) is None
            or stored.version < version
            or (stored.version == version and record not in stored.source)
        )


@dataclass(frozen=True)
class Gate:
    """What stands between a candidate and its swap. An objection is raised, or noted where force overrides it."""

    engine: Engine
    job: Job
    lifecycle: Lifecycle
    sample: Sample

    async def loaded(self, candidate: str, accepted: int) -> None:
        """After loading: every accepted record is there, and so is every sampled one, byte for byte."""
        counted = await self.lifecycle.count(candidate)
        if counted != accepted:
            raise RefusedError(f"{candidate} holds {counted} documents, but {accepted} were accepted: run it again.")
        if differing := await self.sample.differing(self.engine, candidate):
            raise RefusedError(f"{candidate} does not hold what was read: {', '.join(differing[:10])}. Run it again.")

    async def passed(self, candidate: str, live: str | None) -> None:
        """After all was compared: dead letters under their limit, counts within bounds of the live generation."""
        self.job.refuse_above()
        if live is None:
            return
        before = await self.lifecycle.count(live, LIVE)
        after = await self.lifecycle.count(candidate, LIVE)
        for objection in objections(self.engine.settings, before, after):
            self.job.object(f"{candidate} {objection}")


def objections(settings: IndexerSettings, before: int, after: int) -> list[str]:
    """Return what is strange about the number of records beside that of the live generation."""
    if before and not after:
        return [f"has no records, the live generation has {before}: the source may be incomplete"]
    if before - after > allowed(settings.shrink_limit, before):
        return [f"has {after} records, the live generation has {before}: more go than BROKERAGE_SHRINK_LIMIT allows"]
    if after - before > allowed(settings.growth_limit, before):
        return [f"has {after} records, the live generation has {before}: more come than BROKERAGE_GROWTH_LIMIT allows"]
    return []
