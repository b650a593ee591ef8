"""Compaction: merges the live indices whose shards are worn, one index at a time.

It changes no document and no setting, so it needs none of the locks: updates, builds and swaps go on. What it needs to
know, Elasticsearch knows: the wear of an index says whether a merge is due, and a task that one is running.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from elasticsearch import NotFoundError

from cluster.index_wear import IndexWear
from indexer.context import IndexerContext
from indexer.errors import ElasticsearchError, translate_client_errors
from indexer.indices.lifecycle import GenerationLifecycle
from indexer.indices.preflight import preflight
from indexer.indices.shard_statistics import index_wear, largest_shard
from indexer.lock.distributed_lock import ignore_wait
from indexer.maintenance.cluster_load import wait_for_quiet
from indexer.maintenance.merge_tasks import MergeState, MergeTasks
from indexer.maintenance.retained_history import release_history
from mappings import RESOURCES, Resource

_POLL_SECONDS = 1.0
# A merge whose node leaves is begun again, on the node that has the shard then.
_ATTEMPTS = 3
_ELECTION_SECONDS = 2.0


class CompactionOutcome(StrEnum):
    """What became of the index of a resource."""

    ABSENT = "absent"  # nothing is loaded
    SOUND = "sound"  # within the bounds
    COMPACTED = "compacted"
    REPLACED = "replaced"  # another generation went live meanwhile: this one need not be merged, or was deleted


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

    What is updated meanwhile wears an index again, so one may still be worn afterwards.

    If it is stopped, Elasticsearch finishes the merge that runs, and the next call follows it. Raises
    ElasticsearchError, also if Elasticsearch stays busy for an hour, or RefusedError if no data node has room for the
    merged shard.
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
        except (NotFoundError, ElasticsearchError):
            if await self._lifecycle.live() == live:
                raise
            seconds = time.monotonic() - started
            return Compaction(self._name, CompactionOutcome.REPLACED, live, seconds=seconds)

    async def _compact(self, live: str, started: float) -> Compaction:
        before = await index_wear(self._context, live)
        is_followed = await self._follow_others(live, started)
        after = await self._wear(live) if is_followed else before
        if not is_followed and not after.is_worn:
            return Compaction(self._name, CompactionOutcome.SOUND, live, before, after)
        if after.is_worn:
            started = await self._merge(live)
            after = await self._wear(live)
        seconds = time.monotonic() - started
        return Compaction(self._name, CompactionOutcome.COMPACTED, live, before, after, seconds, is_followed)

    async def _follow_others(self, live: str, started: float) -> bool:
        """Wait for the merges of other commands, so that one index is merged at a time; whether one was of `live`."""
        is_ours = False
        while running := await self._tasks.running():
            index, task = next(iter(running.items()))
            is_ours |= index == live
            self._on_wait(f"{index} is being merged for an earlier command: following that.")
            await self._follow(index, task, started)
        return is_ours

    async def _merge(self, live: str) -> float:
        """Merge an index when the cluster is quiet; return when that began."""
        size = await largest_shard(self._context, live)
        await preflight(self._context.client, needed_bytes=size, force=False)
        if not await release_history(self._context, live):
            self._on_wait(
                f"{live}: Elasticsearch keeps some deleted documents for a copy of a shard that is not there."
            )
        await wait_for_quiet(self._context, self._on_wait)
        started = time.monotonic()
        for attempt in range(_ATTEMPTS):
            # Without a master, which is elected within some seconds, a merge fails at once.
            await asyncio.sleep(_ELECTION_SECONDS * attempt)
            await self._require_live(live)  # the wait may have taken hours
            if await self._follow(live, await self._tasks.start(live), started) is MergeState.DONE:
                return started
        raise ElasticsearchError(f"{live}: the nodes that merged it left {_ATTEMPTS} times. Run the command again.")

    async def _require_live(self, index: str) -> None:
        if await self._lifecycle.live() != index:
            raise ElasticsearchError(f"{index} was replaced before it was merged.")

    async def _follow(self, index: str, task: str, started: float) -> MergeState:
        """Follow a merge to its end; an index that was deleted meanwhile has none."""
        while (state := await self._tasks.state(task)) is MergeState.RUNNING:
            wear = await index_wear(self._context, index)
            self._on_progress(CompactionProgress(self._name, index, time.monotonic() - started, wear))
            await asyncio.sleep(_POLL_SECONDS)
        return state

    async def _wear(self, live: str) -> IndexWear:
        await self._lifecycle.refresh(live)
        return await index_wear(self._context, live)
