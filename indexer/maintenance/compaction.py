"""Compaction: merges the live indices whose shards are fragmented, one index at a time, when the cluster is quiet.

It changes no document and no setting, so it needs none of the locks: updates, builds and swaps go on. It keeps no state
of its own: the fragmentation of an index shows whether a merge is due, and a task whose X-Opaque-Id names the index
shows that one is running. So a command finds the merge of one that was killed, and follows it to its end.

A merge drops only deleted documents that no copy of a shard can still ask for. What a copy may need, if it comes back
after a failure, is held by a lease, which Elasticsearch moves on every 30 s, and by the last flush. A merge soon after
an update would rewrite the whole shard and keep every gap.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Any

import orjson
from elasticsearch import NotFoundError

from cluster.client import error_reason
from cluster.http.nodes import NODE_LOSS_TYPES
from cluster.http.responses import RAW_HEADERS
from cluster.index_state import IndexFragmentation
from indexer.errors import ElasticsearchError, translate_client_errors
from indexer.generations.lifecycle import GenerationLifecycle, index_fragmentation, largest_shard, shard_copies
from indexer.generations.preflight import holds_indices, preflight
from indexer.lock import ignore_wait
from indexer.settings import IndexerContext
from mappings import RESOURCES, Resource

_TASKS_PATH = "/_tasks"
_NAME = "brokerage-compact-"
_RUNNING = {
    "actions": "indices:admin/forcemerge",
    "detailed": "true",
    "filter_path": "nodes.*.tasks.*.headers,node_failures",
}
# Why a merge fails when a node leaves that has copies, or is the elected master.
_LEFT = NODE_LOSS_TYPES | {"master_not_discovered_exception"}


class MergeState(Enum):
    """Whether a merge runs, has ended, or ended incomplete because a node left."""

    RUNNING = auto()
    DONE = auto()
    LOST = auto()


class MergeTasks:
    """Starts and follows the merges of the indices under one prefix."""

    def __init__(self, context: IndexerContext) -> None:
        self._cluster = context.cluster
        self._prefix = f"{_NAME}{context.connection.prefix}"

    async def running(self) -> dict[str, str]:
        """Return the task of each index that is being merged, whichever command started it."""
        listed = await self._get(_TASKS_PATH, _RUNNING)
        tasks = [task for node in listed.get("nodes", {}).values() for task in node["tasks"].items()]
        names = {task: headers["headers"].get("X-Opaque-Id", "") for task, headers in tasks}
        return {name.removeprefix(_NAME): task for task, name in names.items() if name.startswith(self._prefix)}

    async def start(self, index: str) -> str:
        """Begin to merge each shard of an index into one segment; return the task."""
        named = self._cluster.options(opaque_id=f"{_NAME}{index}")
        started = await named.indices.forcemerge(index=index, max_num_segments=1, wait_for_completion=False)
        return str(started["task"])

    async def state(self, task: str) -> MergeState:
        """Return whether a merge still runs; raise ElasticsearchError if it failed."""
        try:
            found = await self._get(f"{_TASKS_PATH}/{task}", {})
        except NotFoundError:
            return MergeState.LOST
        if not found["completed"]:
            return MergeState.RUNNING
        failures = found.get("response", {}).get("_shards", {}).get("failures") or []
        causes = [failure["reason"].get("caused_by") for failure in failures] or [found.get("error")]
        if all(cause and _has_left(cause) for cause in causes):
            return MergeState.LOST
        _check(found, failures)
        return MergeState.DONE

    async def _get(self, path: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        # The client's own calls for tasks warn that they may change.
        response = await self._cluster.perform_request("GET", path, params=parameters, headers=RAW_HEADERS)
        parsed: dict[str, Any] = orjson.loads(response.body)
        return parsed


def _has_left(cause: Mapping[str, Any]) -> bool:
    # Other blocks of a cluster have the same type.
    return cause["type"] in _LEFT or "no master" in (cause.get("reason") or "")


def _check(found: Mapping[str, Any], failures: Iterable[Mapping[str, Any]]) -> None:
    reasons = [error_reason(failure.get("reason")) for failure in failures]
    if "error" in found:
        reasons.append(error_reason(found))
    if reasons:
        raise ElasticsearchError(f"Elasticsearch could not merge: {'; '.join(dict.fromkeys(reasons))}.")


_POLL_SECONDS = 1.0
# A merge whose node leaves is begun again, on the node that has the shard then.
_ATTEMPTS = 3
_ELECTION_SECONDS = 2.0


class CompactionOutcome(StrEnum):
    ABSENT = "absent"  # no index is live
    SOUND = "sound"  # within the bounds
    COMPACTED = "compacted"
    REPLACED = "replaced"  # another generation went live meanwhile: this one need not be merged, or was deleted


@dataclass(frozen=True)
class Compaction:
    """What was done for a resource: the index, its fragmentation before and after, and the seconds that the merge took.

    `is_followed` says that an earlier command had started the merge.
    """

    resource: str
    outcome: CompactionOutcome
    index: str | None = None
    before: IndexFragmentation | None = None
    after: IndexFragmentation | None = None
    seconds: float = 0.0
    is_followed: bool = False


@dataclass(frozen=True)
class CompactionProgress:
    """A merge that runs: for how many seconds, and the fragmentation of the index at present."""

    resource: str
    index: str
    seconds: float
    fragmentation: IndexFragmentation


def ignore_compaction(_: CompactionProgress) -> None:
    """Show no progress."""


async def compact(
    context: IndexerContext,
    resources: Sequence[Resource] = RESOURCES,
    *,
    on_progress: Callable[[CompactionProgress], None] = ignore_compaction,
    on_wait: Callable[[str], None] = ignore_wait,
) -> list[Compaction]:
    """Merge the live indices of the given resources whose shards are fragmented; return what was done for each.

    What is updated meanwhile fragments an index again, so one may still be fragmented afterwards.

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
        before = await index_fragmentation(self._context, live)
        is_followed = await self._follow_others(live, started)
        after = await self._fragmentation(live) if is_followed else before
        if not is_followed and not after.is_fragmented:
            return Compaction(self._name, CompactionOutcome.SOUND, live, before, after)
        if after.is_fragmented:
            started = await self._merge(live)
            after = await self._fragmentation(live)
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
        if not await _release_history(self._context, live):
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
            fragmentation = await index_fragmentation(self._context, index)
            self._on_progress(CompactionProgress(self._name, index, time.monotonic() - started, fragmentation))
            await asyncio.sleep(_POLL_SECONDS)
        return state

    async def _fragmentation(self, live: str) -> IndexFragmentation:
        await self._lifecycle.refresh(live)
        return await index_fragmentation(self._context, live)


# Twice the usual interval, and some more: then the merge drops what it can.
_LONGEST_SECONDS = 75.0
_HISTORY_POLL_SECONDS = 1.0
_HISTORY_FILTER = "indices.*.shards.*.seq_no.max_seq_no,indices.*.shards.*.retention_leases.leases.retaining_seq_no"


async def _release_history(context: IndexerContext, index: str) -> bool:
    """Flush an index, and wait until a merge can drop what was deleted so far; return False if it still cannot."""
    end = time.monotonic() + _LONGEST_SECONDS
    written = {shard: _written(copies) for shard, copies in (await _history(context, index)).items()}
    await context.cluster.indices.flush(index=index)
    while await _is_held(context, index, written):
        if time.monotonic() >= end:
            return False
        await asyncio.sleep(_HISTORY_POLL_SECONDS)
    return True


async def _is_held(context: IndexerContext, index: str, written: dict[str, int]) -> bool:
    history = await _history(context, index)
    return any(_retained(copies) <= written.get(shard, -1) for shard, copies in history.items())


async def _history(context: IndexerContext, index: str) -> dict[str, list[dict[str, Any]]]:
    return await shard_copies(context, index, "docs", _HISTORY_FILTER)


def _written(copies: list[dict[str, Any]]) -> int:
    return max((copy.get("seq_no", {}).get("max_seq_no", -1) for copy in copies), default=-1)


def _retained(copies: list[dict[str, Any]]) -> float:
    """Return the number of the first operation of a shard that a lease holds."""
    leases = [lease for copy in copies for lease in copy.get("retention_leases", {}).get("leases", ())]
    return min((lease["retaining_seq_no"] for lease in leases), default=float("inf"))


# Per cent of a data node's processors. A merge occupies one of them and cannot be slowed down; readers need the rest.
MAX_LOAD = 75
# A cluster that is busy for longer is given up: the command runs again the next night.
_LONGEST_WAIT_SECONDS = 3600.0
_LOAD_POLL_SECONDS = 5.0
_LOAD_NOTICE_SECONDS = 60.0
_LOAD_FILTER = "nodes.*.roles,nodes.*.os.cpu.percent"


async def wait_for_quiet(context: IndexerContext, on_wait: Callable[[str], None]) -> None:
    """Wait until no data node is busier than MAX_LOAD; raise ElasticsearchError if one stays busy for an hour."""
    started, noticed = time.monotonic(), -_LOAD_NOTICE_SECONDS
    while (load := await busiest_node(context)) > MAX_LOAD:
        waited = time.monotonic() - started
        if waited >= _LONGEST_WAIT_SECONDS:
            raise ElasticsearchError(
                f"Elasticsearch was busy for {_LONGEST_WAIT_SECONDS:g} s: a data node used {load} % of its processors, "
                f"more than {MAX_LOAD} %. Run the command again at a quiet time."
            )
        if waited - noticed >= _LOAD_NOTICE_SECONDS:
            on_wait(f"A data node uses {load} % of its processors: waiting for at most {MAX_LOAD} %.")
            noticed = waited
        await asyncio.sleep(_LOAD_POLL_SECONDS)


async def busiest_node(context: IndexerContext) -> int:
    """Return the percentage of its processors that the busiest data node uses, 0 if none reports it."""
    stats = await context.cluster.nodes.stats(metric="os", filter_path=_LOAD_FILTER)
    nodes = [node for node in stats.get("nodes", {}).values() if holds_indices(node["roles"])]
    return max((int(node.get("os", {}).get("cpu", {}).get("percent", 0)) for node in nodes), default=0)
