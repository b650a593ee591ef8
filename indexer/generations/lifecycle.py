"""The lifecycle of generations: they are created, refreshed, finished, copied, swapped in and pruned only here.

After a refresh every copy that searches may ask shows all writes. Elasticsearch does not report a copy that it could
not reach for a refresh as failed, and keeps it in use: a mark that is published then promises what a reader of that
copy does not find.

A copy of the live generation is made from hard links: its cost does not grow with the records. Elasticsearch copies
only what cannot be written meanwhile. The block is noted in the `_meta` of the live index before it is set, so that the
next run lifts a block whose run was killed.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from elasticsearch import NotFoundError

from cluster.client import Cluster
from cluster.index_state import FRAGMENTATION_FILTER, FRAGMENTATION_METRICS, IndexFragmentation, read_fragmentation
from indexer.clock import first_future_version
from indexer.errors import ElasticsearchError, LockedError, RefusedError
from indexer.settings import IndexerContext, replica_settings
from mappings import RESOURCES, Resource
from mappings.indices import (
    BLOCK_NOTE,
    BLOCK_SETTING,
    Generation,
    index_body,
    parse_generation,
    schema_fingerprint,
    served_alias,
)
from mappings.shards import LEFT_QUERY, META_KEY, ONE_SHARD, ShardRanges, read_ranges

LIVE_QUERY: dict[str, Any] = {"bool": {"filter": {"term": {"deleted": False}}, "must_not": LEFT_QUERY}}
DELETED_QUERY = {"term": {"deleted": True}}
_NO_FENCES: Mapping[str, str] = {}


def future_query(future_seconds: float) -> dict[str, Any]:
    is_future = {"range": {"version": {"gte": first_future_version(future_seconds)}}}
    return {"bool": {"filter": [is_future, LIVE_QUERY]}}


@dataclass(frozen=True)
class Generations:
    """The existing generations of one alias: which one is live, and which one each replaced."""

    live: str | None
    metas: dict[str, dict[str, Any]]  # the mapping's `_meta` by index, in the order of the generation numbers
    fields: dict[str, frozenset[str]]  # the names of the mapped fields by index

    @property
    def history(self) -> list[str]:
        """The live generation, the one it replaced, and so on, as far as they still exist."""
        generations: list[str] = []
        index = self.live
        while index is not None and index in self.metas:
            generations.append(index)
            index = self.metas[index].get("replaces")
        return generations

    def fingerprint(self, index: str) -> str | None:
        fingerprint: str | None = self.metas[index].get("fingerprint")
        return fingerprint

    def ranges(self, index: str) -> ShardRanges:
        return read_ranges(self.metas.get(index, {}))


@dataclass(frozen=True)
class AliasMove:
    """One alias that moves from `live`, None for the first generation, to `index`; the fences are index by alias."""

    alias: str
    index: str
    live: str | None
    fences: Mapping[str, str]

    @property
    def actions(self) -> list[dict[str, Any]]:
        """The actions of an alias request. What they remove must exist, or the whole request fails."""
        removed = dict(self.fences) if self.live is None else {self.alias: self.live, **self.fences}
        actions: list[dict[str, Any]] = [{"add": {"index": self.index, "alias": self.alias}}]
        return actions + [
            {"remove": {"index": at, "alias": alias, "must_exist": True}} for alias, at in removed.items()
        ]

    def served_actions(self, routed: Collection[str]) -> Iterator[dict[str, Any]]:
        """Yield the actions for the alias that an index of several shards has only while it is live.

        A reader that routes by the ranges of a generation searches through this alias, which fails after a swap.
        """
        if self.index in routed:
            yield {"add": {"index": self.index, "alias": served_alias(self.index)}}
        if self.live is not None and self.live in routed and self.live != self.index:
            yield {"remove": {"index": self.live, "alias": served_alias(self.live), "must_exist": False}}


class GenerationLifecycle:
    def __init__(self, context: IndexerContext, resource: Resource) -> None:
        self._client = context.client
        self._cluster = context.cluster
        self._settings = context.settings
        self._resource = resource
        self.alias = context.connection.alias(resource)
        self.fingerprint = schema_fingerprint(resource)

    async def generations(self) -> Generations:
        """Return the existing generations; raise RefusedError if the alias is not one of ours."""
        mappings = await self._cluster.indices.get_mapping(index=f"{self.alias}-v*")
        metas = {index: body["mappings"].get("_meta", {}) for index, body in mappings.items()}
        ours = {parsed: index for index in metas if (parsed := parse_generation(index)) and parsed.alias == self.alias}
        names = [ours[parsed] for parsed in sorted(ours)]
        return Generations(
            live=await self.live(),
            metas={name: metas[name] for name in names},
            fields={name: frozenset(mappings[name]["mappings"].get("properties", ())) for name in names},
        )

    async def live(self) -> str | None:
        """Return the index behind the alias; raise RefusedError if it is an index itself or has several targets."""
        try:
            targets = sorted(await self._cluster.indices.get_alias(index=self.alias))
        except NotFoundError:
            return None
        if targets == [self.alias]:
            raise RefusedError(f"{self.alias} is an index, not an alias: rename or delete that index.")
        if len(targets) > 1:
            raise RefusedError(f"The alias {self.alias} points to {', '.join(targets)}: leave it one index.")
        return str(targets[0])

    async def create(self, present: Generations, published: str | None = None, ranges: ShardRanges = ONE_SHARD) -> str:
        """Create the next generation for loading, without refreshes and replicas until it is finished.

        The number of the last `published` generation is not used again, even if that one is gone.
        """
        name = self.next_name(present, published)
        body: dict[str, Any] = index_body(self._resource, ranges)
        body["settings"] |= {"index.number_of_replicas": 0, "index.refresh_interval": "-1"}
        body["mappings"]["_meta"]["replaces"] = present.live
        await self._client.indices.create(index=name, **body)
        return name

    async def ranges(self, index: str) -> ShardRanges:
        present = await self._cluster.indices.get_mapping(index=index)
        return read_ranges(present[index]["mappings"].get("_meta", {}))

    def next_name(self, present: Generations, published: str | None = None) -> str:
        names = [*present.metas, published or ""]
        numbers = [parsed.number for index in names if (parsed := parse_generation(index))]
        return str(Generation(self.alias, max(numbers, default=0) + 1))

    async def refresh(self, index: str) -> None:
        await refresh_completely(self._cluster, index)

    async def finish(self, index: str, *, merges: bool = True) -> None:
        """Merge a loaded generation and apply its live settings, with a replica if there is a second node."""
        if merges and self._settings.merge:
            await self._cluster.patient.indices.forcemerge(index=index, max_num_segments=1)
        live = {"index.refresh_interval": self._settings.refresh_interval, **replica_settings(self._settings.replicas)}
        await self._cluster.indices.put_settings(index=index, settings=live)
        await self.refresh(index)
        await self._await_health(index)

    async def _await_health(self, index: str) -> None:
        patient = self._client.options(request_timeout=24 * 3600, ignore_status=408)
        wait = f"{self._settings.green_seconds}s"
        health = await patient.cluster.health(index=index, wait_for_status="green", timeout=wait)
        if health["status"] == "red":
            raise ElasticsearchError(f"{index} is red: its shard is on none of the nodes, so it did not go live.")

    async def count(self, index: str, query: dict[str, Any] | None = None) -> int:
        current = {"bool": {"filter": [] if query is None else query, "must_not": LEFT_QUERY}}
        return await self._cluster.count_completely(index, current)

    async def count_live(self, index: str) -> tuple[int, int]:
        current = {"bool": {"must_not": LEFT_QUERY}}
        exact = {"size": 0, "track_total_hits": True, "aggs": {"deleted": {"filter": DELETED_QUERY}}}
        found = await self._cluster.search_completely(index, query=current, **exact)
        tombstones = int(found["aggregations"]["deleted"]["doc_count"])
        return int(found["hits"]["total"]["value"]) - tombstones, tombstones

    async def size(self, index: str) -> int:
        """Return the bytes on disk, replicas included, 0 if its shards are on no node."""
        response = await self._cluster.indices.stats(index=index, metric="store")
        return int(response["_all"]["total"].get("store", {}).get("size_in_bytes", 0))

    async def update_meta(self, index: str, **facts: Any) -> None:
        present = await self._cluster.indices.get_mapping(index=index)
        meta = present[index]["mappings"].get("_meta", {}) | facts
        await self._cluster.indices.put_mapping(index=index, meta=meta)

    async def swap(
        self,
        index: str,
        live: str | None,
        fences: Mapping[str, str] = _NO_FENCES,
        *,
        together: Sequence[AliasMove] = (),
    ) -> None:
        """Point the alias to `index` only and remove the fences (index by alias), atomically.

        The moves of other aliases in `together` are part of the same request. It fails without a change if a live
        index no longer has its alias or a fence no longer exists.
        """
        moves = [AliasMove(self.alias, index, live, fences), *together]
        named = [name for move in moves for name in (move.index, move.live) if name]
        mappings = await self._cluster.indices.get_mapping(index=named)
        routed = {index for index, body in mappings.items() if META_KEY in body["mappings"].get("_meta", {})}
        actions = [action for move in moves for action in (*move.actions, *move.served_actions(routed))]
        try:
            await self._cluster.indices.update_aliases(actions=actions)
        except NotFoundError:
            if await self.live() != index:  # otherwise only the response was lost
                indices = ", ".join(move.index for move in moves)
                raise LockedError(f"An alias was changed by another run: {indices} did not go live.") from None

    async def delete_candidate(self, index: str) -> bool:
        """Delete a generation that is not served, and return True; the live one is kept."""
        if await self.live() == index:
            return False
        await self._client.indices.delete(index=index, ignore_unavailable=True)
        return True

    def prunable(self, present: Generations) -> list[str]:
        """Return the generations to prune: all but the live one and its most recent predecessors.

        These include remains of failed builds and generations that were rolled back.
        """
        if present.live not in present.metas:
            return []
        retained = present.history[: max(1, self._settings.kept_generations)]
        return [index for index in present.metas if index not in retained]

    async def prune(self, present: Generations) -> list[str]:
        """Delete the prunable generations, but for one that went live since, and return their names."""
        return [name for name in self.prunable(present) if await self.delete_candidate(name)]


async def live_generations(context: IndexerContext) -> dict[Resource, str]:
    """Return the live index of each resource that has one; not of those whose alias is not one of ours."""
    aliases = {context.connection.alias(resource): resource for resource in RESOURCES}
    found = await context.cluster.indices.get_alias(index=[*aliases], ignore_unavailable=True)
    targets = [(alias, index) for index, body in found.items() for alias in body["aliases"]]
    live = {alias: index for alias, index in targets if alias in aliases}
    several = {alias for alias, index in targets if live.get(alias, index) != index}
    return {aliases[alias]: index for alias, index in live.items() if alias not in several}


# Until its replica is due, a copy has none: it would be copied once more.
_COPY_SETTINGS = {
    BLOCK_SETTING: None,
    "index.number_of_replicas": 0,
    "index.auto_expand_replicas": False,
    "index.refresh_interval": "-1",
}


async def copy_live(
    context: IndexerContext, resource: Resource, lifecycle: GenerationLifecycle, live: str, copy: str
) -> None:
    """Copy the live generation under another name, with all its records, versions and stamps.

    The caller holds the write lock: writes to the live index are refused for a moment. Raises ElasticsearchError if
    the copy cannot be placed on the node of the original.
    """
    seconds = context.settings.green_seconds
    client = context.client.options(ignore_status=408)
    async with _blocked_writes(context, lifecycle, live, copy):
        await context.client.indices.clone(index=live, target=copy, settings=_COPY_SETTINGS)
        health = await client.cluster.health(index=copy, wait_for_status="yellow", timeout=f"{seconds}s")
    if health["status"] == "red":
        raise ElasticsearchError(
            f"{live} cannot be copied to {copy}: its node takes no other index: free disk space there."
        )
    body: dict[str, Any] = index_body(resource, await lifecycle.ranges(live))
    meta = body["mappings"]["_meta"] | {"replaces": live}
    await context.client.indices.put_mapping(index=copy, meta=meta)


@asynccontextmanager
async def _blocked_writes(
    context: IndexerContext, lifecycle: GenerationLifecycle, live: str, copy: str
) -> AsyncIterator[None]:
    await lifecycle.update_meta(live, **{BLOCK_NOTE: copy})
    try:
        await context.client.indices.add_block(index=live, block="write")
        yield
    finally:
        await _lift_block(context, lifecycle, live)


async def lift_left_block(
    context: IndexerContext, lifecycle: GenerationLifecycle, live: str, meta: Mapping[str, Any]
) -> None:
    """Lift the block of a run that was killed while it copied the live generation; the caller holds the write lock."""
    if meta.get(BLOCK_NOTE):
        await _lift_block(context, lifecycle, live)


async def _lift_block(context: IndexerContext, lifecycle: GenerationLifecycle, live: str) -> None:
    await context.cluster.indices.put_settings(index=live, settings={BLOCK_SETTING: None})
    await lifecycle.update_meta(live, **{BLOCK_NOTE: None})


_POLL_SECONDS = 0.5
_MOMENT = "1s"
_STARTING = "INITIALIZING"
_NOTHING = -1


async def refresh_completely(cluster: Cluster, index: str) -> None:
    """Make all writes visible in each assigned copy of each shard.

    Raises ElasticsearchError if a copy that is in use cannot be refreshed for `retry_seconds`.
    """

    async def is_refreshed() -> bool:
        shards = (await cluster.patient.indices.refresh(index=index))["_shards"]
        if shards["successful"] == shards["total"]:
            return True
        # Copies that were not reached may be on no node: such a copy starts with all writes visible.
        health = await _health(cluster, index)
        return bool(health["status"] != "red" and shards["successful"] >= int(health["active_shards"]))

    seconds = cluster.retry_seconds
    await _until(
        is_refreshed, seconds, f"{index} could not be refreshed in every copy of its shards for {seconds:g} s."
    )


async def refresh_to_seq_nos(cluster: Cluster, index: str) -> list[int]:
    """Refresh an index and return for each shard a `_seq_no` up to which all writes are visible, -1 without any.

    Raises ElasticsearchError if a shard is on no node, or its copies cannot be refreshed, for `retry_seconds`.
    """
    found = dict[int, int]()

    async def are_found() -> bool:
        response = await cluster.indices.stats(index=index, metric="docs", level="shards")
        found.update(_checkpoints(response))
        shards = response["_shards"]
        if shards["successful"] == shards["total"]:
            return True
        health = await _health(cluster, index)
        return health["status"] != "red" and len(found) == int(health["active_primary_shards"])

    await _until(are_found, cluster.retry_seconds, f"{index} is red: a shard of it is on none of the nodes.")
    await refresh_completely(cluster, index)
    return [found[number] for number in range(len(found))]


async def _health(cluster: Cluster, index: str) -> Mapping[str, Any]:
    patient = cluster.options(ignore_status=408)
    health: Mapping[str, Any] = (await patient.cluster.health(index=index, timeout=_MOMENT)).body
    return health


def _checkpoints(response: Any) -> dict[int, int]:
    """Return the global checkpoint of each shard whose primary has answered.

    All copies have the writes up to it. Above, the number of a write may be used again for another one, if the primary
    is lost before its copies have that write.
    """
    return {
        int(number): max(_NOTHING, int(copy["seq_no"]["global_checkpoint"]))
        for statistics in response.get("indices", {}).values()
        for number, copies in statistics["shards"].items()
        for copy in copies
        if copy["routing"]["primary"] and copy["routing"]["state"] != _STARTING
    }


async def _until(condition: Callable[[], Awaitable[bool]], seconds: float, failure: str) -> None:
    end = time.monotonic() + seconds
    while not await condition():
        if time.monotonic() >= end:
            raise ElasticsearchError(failure)
        await asyncio.sleep(_POLL_SECONDS)


StoredSeqNos: TypeAlias = int | list[int]


def stored_seq_nos(seq_nos: list[int]) -> StoredSeqNos:
    return seq_nos[0] if len(seq_nos) == 1 else seq_nos


def read_seq_nos(stored: StoredSeqNos) -> list[int]:
    return [stored] if isinstance(stored, int) else stored


def shard_numbers(seq_nos: list[int]) -> list[int | None]:
    """Return the shards to search one by one; None for the only one."""
    return [None] if len(seq_nos) == 1 else [*range(len(seq_nos))]


_MARGIN_SECONDS = 60
_SIZE_FILTER = "indices.*.shards.*.store.size_in_bytes"


async def index_fragmentation(context: IndexerContext, index: str) -> IndexFragmentation:
    return read_fragmentation(await shard_copies(context, index, FRAGMENTATION_METRICS, FRAGMENTATION_FILTER))


async def largest_shard(context: IndexerContext, index: str) -> int:
    """Return the bytes of the largest shard of an index."""
    shards = await shard_copies(context, index, "store", _SIZE_FILTER)
    return max((copy["store"]["size_in_bytes"] for copies in shards.values() for copy in copies), default=0)


async def has_all_shards(context: IndexerContext, index: str) -> bool:
    """Whether each shard is on a node, or comes to one within BROKERAGE_GREEN_SECONDS: nodes are restarted."""
    seconds = context.settings.green_seconds
    patient = context.client.options(request_timeout=seconds + _MARGIN_SECONDS, ignore_status=408)
    health = await patient.cluster.health(index=index, wait_for_status="yellow", timeout=f"{seconds}s")
    return bool(health["status"] != "red")


async def shard_copies(
    context: IndexerContext, index: str, metrics: str, fields: str
) -> dict[str, list[dict[str, Any]]]:
    """Return statistics of the copies of each shard, by its number; `fields` are the paths to return."""
    stats = await context.cluster.indices.stats(index=index, metric=metrics, level="shards", filter_path=fields)
    shards: dict[str, list[dict[str, Any]]] = stats.get("indices", {}).get(index, {}).get("shards", {})
    return shards
