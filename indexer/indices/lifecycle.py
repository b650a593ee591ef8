"""The lifecycle of generations: they are created, finished, swapped in, rolled back and pruned only here.

A copy of the live one is made in `indexer.indices.live_copy`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elasticsearch import NotFoundError

from indexer.clock import first_future_version
from indexer.context import IndexerContext
from indexer.errors import ElasticsearchError, LockedError, RefusedError
from indexer.indices.backoff import retry
from indexer.indices.complete_search import count_completely
from indexer.indices.refreshes import refresh_all_copies
from indexer.shard_settings import replica_settings
from mappings import Resource
from mappings.generations import Generation, parse_generation, served_alias
from mappings.index_body import index_body, schema_fingerprint
from mappings.shards.ranges import META_KEY, ONE_SHARD, ShardRanges, read_ranges
from mappings.shards.visibility import LEFT_QUERY

# Merging a large index is one request that may take hours.
_MAINTENANCE_TIMEOUT_SECONDS = 24 * 3600
LIVE_QUERY: dict[str, Any] = {"bool": {"filter": {"term": {"deleted": False}}, "must_not": LEFT_QUERY}}
DELETED_QUERY = {"term": {"deleted": True}}
NO_FENCES: Mapping[str, str] = {}


def future_query(future_seconds: float) -> dict[str, Any]:
    """Return the query for live records that are dated later than a source can mean."""
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
        """Return the schema fingerprint of an index."""
        fingerprint: str | None = self.metas[index].get("fingerprint")
        return fingerprint

    def ranges(self, index: str) -> ShardRanges:
        """Return the ranges of the shards of an index."""
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
    """Manages the alias and the generations of one resource."""

    def __init__(self, context: IndexerContext, resource: Resource) -> None:
        self._client = context.client
        self._settings = context.settings
        self._resource = resource
        self.alias = context.connection.alias(resource)
        self.fingerprint = schema_fingerprint(resource)

    async def generations(self) -> Generations:
        """Return the existing generations; raise RefusedError if the alias is not one of ours."""
        mappings = await self._client.indices.get_mapping(index=f"{self.alias}-v*")
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
            targets = list(await self._client.indices.get_alias(name=self.alias))
        except NotFoundError:
            if await self._client.indices.exists(index=self.alias):
                raise RefusedError(f"{self.alias} is an index, not an alias: rename or delete that index.") from None
            return None
        if len(targets) > 1:
            raise RefusedError(f"The alias {self.alias} points to {', '.join(sorted(targets))}: leave it one index.")
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
        """Return the ranges of the shards of an index."""
        present = await self._client.indices.get_mapping(index=index)
        return read_ranges(present[index]["mappings"].get("_meta", {}))

    def next_name(self, present: Generations, published: str | None = None) -> str:
        """Return the name of the next generation, above all that are present and the last one published."""
        names = [*present.metas, published or ""]
        numbers = [parsed.number for index in names if (parsed := parse_generation(index))]
        return str(Generation(self.alias, max(numbers, default=0) + 1))

    async def refresh(self, index: str) -> None:
        """Make all writes visible."""
        await refresh_all_copies(self._client, index, self._settings.retry_seconds)

    async def finish(self, index: str, *, merges: bool = True) -> None:
        """Merge a loaded generation and apply its live settings, with a replica if there is a second node."""
        if merges and self._settings.merge:
            await self._merge(index)
        live = {"index.refresh_interval": self._settings.refresh_interval, **replica_settings(self._settings.replicas)}
        await retry(lambda: self._client.indices.put_settings(index=index, settings=live), self._settings.retry_seconds)
        await self.refresh(index)
        await self._await_health(index)

    async def _merge(self, index: str) -> None:
        merge = self._client.options(request_timeout=_MAINTENANCE_TIMEOUT_SECONDS).indices.forcemerge
        await retry(lambda: merge(index=index, max_num_segments=1), self._settings.retry_seconds)

    async def _await_health(self, index: str) -> None:
        """Wait for green; accept yellow, refuse red."""
        patient = self._client.options(request_timeout=_MAINTENANCE_TIMEOUT_SECONDS, ignore_status=408)
        wait = f"{self._settings.green_seconds}s"
        health = await patient.cluster.health(index=index, wait_for_status="green", timeout=wait)
        if health["status"] == "red":
            raise ElasticsearchError(f"{index} is red: its shard is on none of the nodes, so it was not swapped in.")

    async def count(self, index: str, query: dict[str, Any] | None = None) -> int:
        """Return the number of documents, optionally of those that match a query."""
        current = {"bool": {"filter": [] if query is None else query, "must_not": LEFT_QUERY}}
        return await count_completely(self._client, index, self._settings.retry_seconds, current)

    async def size(self, index: str) -> int:
        """Return the bytes on disk, replicas included, 0 if its shards are on no node."""
        response = await self._client.indices.stats(index=index, metric="store")
        return int(response["_all"]["total"].get("store", {}).get("size_in_bytes", 0))

    async def update_meta(self, index: str, **facts: Any) -> None:
        """Merge entries into the mapping's `_meta`."""
        present = await self._client.indices.get_mapping(index=index)
        meta = present[index]["mappings"].get("_meta", {}) | facts
        await retry(lambda: self._client.indices.put_mapping(index=index, meta=meta), self._settings.retry_seconds)

    async def swap(
        self,
        index: str,
        live: str | None,
        fences: Mapping[str, str] = NO_FENCES,
        *,
        together: Sequence[AliasMove] = (),
    ) -> None:
        """Point the alias to `index` only and remove the fences (index by alias), atomically.

        The moves of other aliases in `together` are part of the same request. It fails without a change if a live
        index no longer has its alias or a fence no longer exists.
        """
        moves = [AliasMove(self.alias, index, live, fences), *together]
        await retry(lambda: self._swap_once(moves), self._settings.retry_seconds)

    async def _swap_once(self, moves: Sequence[AliasMove]) -> None:
        named = [index for move in moves for index in (move.index, move.live) if index]
        mappings = await self._client.indices.get_mapping(index=named)
        routed = {index for index, body in mappings.items() if META_KEY in body["mappings"].get("_meta", {})}
        actions = [action for move in moves for action in (*move.actions, *move.served_actions(routed))]
        try:
            await self._client.indices.update_aliases(actions=actions)
        except NotFoundError:
            if await self.live() != moves[0].index:  # otherwise only the response was lost
                indices = ", ".join(move.index for move in moves)
                raise LockedError(f"An alias was changed by another run: {indices} not swapped in.") from None

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
