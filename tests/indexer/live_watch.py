"""Watches what is served while it changes, as partners do: first the mark, then the index."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from cluster.control_index import Mark
from mappings import TEAM
from tests.indexer.conftest import Bench

_PAUSE_SECONDS = 0.02


@dataclass
class LiveWatch:
    """What was observed. `behind` are documents that appeared or changed at or below an earlier mark."""

    steady: set[str]  # identifiers that never may be missing
    looks: int = 0
    marks: set[int] = field(default_factory=set)
    behind: list[tuple[str, int, int, Mark]] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)

    async def run(self, bench: Bench) -> None:
        """Poll until cancelled."""
        seen: set[tuple[str, int]] | None = None
        before = await bench.mark(TEAM)
        while True:
            mark, found = await bench.mark(TEAM), await stamps(bench)
            present = {(identifier, sequence) for identifier, (_, sequence) in found.items()}
            if seen is not None:
                self._judge(found, present - seen, before)
            seen, before = present, mark
            self.looks += 1
            self.marks.add(mark.sequence)
            self.missing |= self.steady - set(found)
            await asyncio.sleep(_PAUSE_SECONDS)

    def _judge(self, found: dict[str, tuple[int, int]], new: set[tuple[str, int]], before: Mark) -> None:
        """Record what appeared since the last poll at or below the mark that was read before that poll."""
        for identifier, _ in new:
            clock, sequence = found[identifier]
            if clock <= before.clock or sequence <= before.sequence:
                self.behind.append((identifier, clock, sequence, before))


async def stamps(bench: Bench) -> dict[str, tuple[int, int]]:
    """Return clock and sequence of every served team, deleted ones included."""
    answer = await bench.client.search(
        index=bench.connection.alias(TEAM),
        size=10_000,
        source=False,
        docvalue_fields=[{"field": name} for name in ("id", "clock", "sequence")],
        stored_fields="_none_",
    )
    rows = [hit["fields"] for hit in answer["hits"]["hits"]]
    return {row["id"][0]: (row["clock"][0], row["sequence"][0]) for row in rows}


@asynccontextmanager
async def watch_live(bench: Bench, steady: set[str]) -> AsyncIterator[LiveWatch]:
    """Watch the teams while the block runs."""
    watch = LiveWatch(steady)
    task = asyncio.create_task(watch.run(bench))
    try:
        yield watch
    finally:
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled(), task.exception()
