"""Compaction: merges the live indices whose shards are worn, one index at a time.

It changes no document and no setting, so it needs none of the locks: updates, builds and swaps go on. What it needs to
know, Elasticsearch knows: the wear of an index says whether a merge is due, and a task that one is running.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from elasticsearch import NotFoundError

from indexer.errors import ElasticsearchError, translate_client_errors
from indexer.indices.lifecycle import GenerationLifecycle
from indexer.indices.preflight import preflight
from indexer.indices.shard_statistics import index_wear, largest_shard
from indexer.lock.distributed_lock import ignore_wait
from indexer.maintenance.cluster_load import wait_for_quiet
from indexer.maintenance.merge_tasks import MergeTasks
from mappings import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cluster.index_wear import IndexWear
    from indexer.context import IndexerContext
    from mappings import Resource

_POLL_SECONDS = 1.0
# A merge whose node leaves is begun again, on the node that has the shard then.
_ATTEMPTS = 3


class CompactionOutcome(StrEnum):
    """What became of the index of a resource."""

    ABSENT = "absent"  # nothing is loaded
    SOUND = "sound"  # within the bounds
    COMPACTED = "compacted"
    REPLACED = "replaced"  # another generation went live meanwhile, and this one was deleted


@dataclass(frozen=True)
class Compaction:
    """What was done for a resource: the index, its wear before and after, and the seconds that the merge took.

    `is_followed` says that an earlier command had started the merge.
    """

    resource: str
    outcome: CompactionOutcome
    index: str | None = None
    before: IndexWear | None = None
    after: IndexWear | None = None
    seconds: float = 0.0
    is_followed: bool = False


@dataclass(frozen=True)
class CompactionProgress:
    """A merge that runs: for how many seconds, and the wear of the index at present."""

    resource: str
    index: str
    seconds: float
    wear: IndexWear


def ignore_compaction(_: CompactionProgress) -> None:
    """Show no progress."""


async def compact(
    context: IndexerContext,
    resources: Sequence[Resource] = RESOURCES,
    *,
    on_progress: Callable[[CompactionProgress], None] = ignore_compaction,
    on_wait: Callable[[str], None] = ignore_wait,
) -> list[Compaction]:
    """Merge the live indices of the given resources whose shards are worn; return what was done for each.

    If it is stopped, Elasticsearch finishes the merge that runs, and the next call follows it. Raises
    ElasticsearchError, also if Elasticsearch stays busier than BROKERAGE_COMPACT_LOAD, or RefusedError if no data node
    has room for the merged shard.
    """
    with translate_client_errors():
        return [await _ResourceCompaction(context, resource, on_progress, on_wait).run() for resource in resources]


class _ResourceCompaction:
    def __init__(
        self,
        context: IndexerContext,
        resource: Resource,
        on_progress: Callable[[CompactionProgress], None],
        on_wait: Callable[[str], None],
    ) -> None:
        self._context = context
        self._name = resource.alias
        self._lifecycle = GenerationLifecycle(context, resource)
        self._tasks = MergeTasks(context)
        self._on_progress = on_progress
        self._on_wait = on_wait

    async def run(self) -> Compaction:
        """Compact the live index if it is worn."""
        if (live := await self._lifecycle.live()) is None:
            return Compaction(self._name, CompactionOutcome.ABSENT)
        started = time.monotonic()
        try:
            return await self._compact(live, started)
        except NotFoundError:
            if await self._lifecycle.live() == live:
                raise
            seconds = time.monotonic() - started
            return Compaction(self._name, CompactionOutcome.REPLACED, live, seconds=seconds)

    async def _compact(self, live: str, started: float) -> Compaction:
        before = await index_wear(self._context, live)
        is_followed = await self._follow_others(live, started)
        after = await index_wear(self._context, live) if is_followed else before
        for _ in range(_ATTEMPTS):
            if not after.is_worn:
                break
            after, started = await self._merge(live)
        if after.is_worn:
            raise ElasticsearchError(_still_worn(live, after))
        is_sound = after is before
        seconds = 0.0 if is_sound else time.monotonic() - started
        outcome = CompactionOutcome.SOUND if is_sound else CompactionOutcome.COMPACTED
        return Compaction(self._name, outcome, live, before, after, seconds, is_followed)

    async def _follow_others(self, live: str, started: float) -> bool:
        """Wait for the merges of other commands, so that one index is merged at a time; whether one was of `live`."""
        is_ours = False
        while running := await self._tasks.running():
            index, task = next(iter(running.items()))
            is_ours |= index == live
            self._on_wait(f"{index} is being merged for an earlier command: following that.")
            await self._follow(index, task, started)
        return is_ours

    async def _merge(self, live: str) -> tuple[IndexWear, float]:
        await preflight(self._context.client, needed_bytes=await largest_shard(self._context, live), force=False)
        await wait_for_quiet(self._context, self._on_wait)
        started = time.monotonic()
        await self._follow(live, await self._tasks.start(live), started)
        await self._lifecycle.refresh(live)
        return await index_wear(self._context, live), started

    async def _follow(self, index: str, task: str, started: float) -> None:
        while await self._tasks.is_running(task):
            wear = await index_wear(self._context, index)
            self._on_progress(CompactionProgress(self._name, index, time.monotonic() - started, wear))
            await asyncio.sleep(_POLL_SECONDS)


def _still_worn(live: str, wear: IndexWear) -> str:
    return (
        f"{live} is still worn after {_ATTEMPTS} merges: {wear.deleted:.1%} of the documents of a shard are deleted, in "
        f"{wear.segments} segments. Elasticsearch keeps deleted documents while a copy of the shard recovers: run the "
        "command again later."
    )
