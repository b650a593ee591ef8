"""The life of an alias: generations are created, finished, swapped in, rolled back and pruned here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elasticsearch import NotFoundError

from indexer.errors import EngineError, LockedError, RefusedError
from indexer.retry import patiently
from mappings.index import fingerprint, index_body
from mappings.names import Generation, parse_generation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indexer.engine import Engine
    from mappings import Resource

# Refreshing and merging a large index is one request that takes as long as it takes.
_PATIENT_SECONDS = 24 * 3600
LIVE = {"term": {"deleted": False}}
DELETED = {"term": {"deleted": True}}
NO_FENCES: Mapping[str, str] = {}


@dataclass(frozen=True)
class Generations:
    """The generations of one alias as they stand: which one is live, and what each one replaced."""

    live: str | None
    metas: dict[str, dict[str, Any]]  # by index, in the order of their numbers: what each says of itself

    @property
    def history(self) -> list[str]:
        """The live generation, the one it replaced, and so on, as far as they are still there."""
        found: list[str] = []
        index = self.live
        while index is not None and index in self.metas:
            found.append(index)
            index = self.metas[index].get("replaces")
        return found

    def fingerprint(self, index: str) -> str | None:
        """Return the shape that an index has."""
        fingerprint: str | None = self.metas[index].get("fingerprint")
        return fingerprint


class Lifecycle:
    """Owns the alias of one resource."""

    def __init__(self, engine: Engine, resource: Resource) -> None:
        """Nothing is asked of the cluster yet."""
        self._client = engine.client
        self._settings = engine.settings
        self._resource = resource
        self.alias = engine.connection.alias(resource)
        self.fingerprint = fingerprint(resource)

    async def generations(self) -> Generations:
        """Return what there is; raise RefusedError where the alias's name or targets are not ours."""
        found = await self._client.indices.get_mapping(index=f"{self.alias}-v*")
        metas = {index: body["mappings"].get("_meta", {}) for index, body in found.items()}
        ours = {parsed: index for index in metas if (parsed := parse_generation(index)) and parsed.alias == self.alias}
        names = [ours[parsed] for parsed in sorted(ours)]
        return Generations(
            live=await self.live(),
            metas={name: metas[name] for name in names},
        )

    async def live(self) -> str | None:
        """Return the index behind the alias; raise RefusedError where it is no alias or has several."""
        try:
            targets = list(await self._client.indices.get_alias(name=self.alias))
        except NotFoundError:
            if await self._client.indices.exists(index=self.alias):
                raise RefusedError(f"{self.alias} is an index, not an alias: rename or delete that index.") from None
            return None
        if len(targets) > 1:
            raise RefusedError(f"The alias {self.alias} points at {', '.join(sorted(targets))}: leave it one index.")
        return str(targets[0])

    async def create(self, present: Generations, published: str | None = None) -> str:
        """Create the next generation for loading: nothing is refreshed or replicated until it is finished.

        Its name is not that of the last one that was `published`, though that be gone.
        """
        names = [*present.metas, published or ""]
        numbers = [parsed.number for index in names if (parsed := parse_generation(index))]
        name = str(Generation(self.alias, max(numbers, default=0) + 1))
        body: dict[str, Any] = index_body(self._resource)
        body["settings"] |= {"index.number_of_replicas": 0, "index.refresh_interval": "-1"}
        body["mappings"]["_meta"]["replaces"] = present.live
        await self._client.indices.create(index=name, **body)
        return name

    async def refresh(self, index: str) -> None:
        """Make everything that was written visible."""
        await self._patiently(index, "refresh")

    async def finish(self, index: str) -> None:
        """Bring a loaded generation to the shape in which it serves, with its replica where there is a second node."""
        if self._settings.merge:
            await self._patiently(index, "forcemerge", max_num_segments=1)
        live = {"index.refresh_interval": self._settings.refresh_interval, "index.auto_expand_replicas": "0-1"}
        await patiently(
            lambda: self._client.indices.put_settings(index=index, settings=live), self._settings.retry_seconds
        )
        await self.refresh(index)
        await self._healthy(index)

    async def _patiently(self, index: str, verb: str, **options: Any) -> None:
        indices = self._client.options(request_timeout=_PATIENT_SECONDS).indices
        work = getattr(indices, verb)
        await patiently(lambda: work(index=index, **options), self._settings.retry_seconds)

    async def _healthy(self, index: str) -> None:
        """Wait for green; yellow serves too, red does not."""
        patient = self._client.options(request_timeout=_PATIENT_SECONDS, ignore_status=408)
        wait = f"{self._settings.green_seconds}s"
        health = await patient.cluster.health(index=index, wait_for_status="green", timeout=wait)
        if health["status"] == "red":
            raise EngineError(f"{index} is red: its shard is not on any node, so it was not swapped in.")

    async def count(self, index: str, query: dict[str, Any] | None = None) -> int:
        """Return the number of documents, of all of them or of those that a query selects."""
        answer = await patiently(lambda: self._client.count(index=index, query=query), self._settings.retry_seconds)
        return int(answer["count"])

    async def size(self, index: str) -> int:
        """Return the bytes on disk, replicas included."""
        answer = await self._client.indices.stats(index=index, metric="store")
        return int(answer["_all"]["total"]["store"]["size_in_bytes"])

    async def tell(self, index: str, **facts: Any) -> None:
        """Add to what an index says of itself."""
        present = await self._client.indices.get_mapping(index=index)
        meta = present[index]["mappings"].get("_meta", {}) | facts
        await patiently(lambda: self._client.indices.put_mapping(index=index, meta=meta), self._settings.retry_seconds)

    async def swap(self, index: str, live: str | None, fences: Mapping[str, str] = NO_FENCES) -> None:
        """Point the alias at `index` and at nothing else, in one step, taking fences (index by alias) along.

        It fails, with nothing changed, where `live` no longer has the alias or a fence no longer stands.
        """
        removed = dict(fences) if live is None else {self.alias: live, **fences}
        actions: list[dict[str, Any]] = [{"add": {"index": index, "alias": self.alias}}]
        actions += [{"remove": {"index": at, "alias": alias, "must_exist": True}} for alias, at in removed.items()]
        await patiently(lambda: self._swapped(index, actions), self._settings.retry_seconds)

    async def _swapped(self, index: str, actions: list[dict[str, Any]]) -> None:
        try:
            await self._client.indices.update_aliases(actions=actions)
        except NotFoundError:
            if await self.live() != index:  # else it was done, and only the answer was lost
                raise LockedError(f"{self.alias} was changed by another run: {index} was not swapped in.") from None

    async def discard(self, index: str) -> None:
        """Delete a generation that was never served; one that the alias points at stays."""
        if await self.live() != index:
            await self._client.indices.delete(index=index, ignore_unavailable=True)

    def superfluous(self, present: Generations) -> list[str]:
        """Return what pruning deletes: all but the live generation and those that it replaced, as many as are kept.

        Left-overs of failed builds and generations that were rolled back go as well.
        """
        if present.live not in present.metas:
            return []
        kept = present.history[: max(1, self._settings.kept_generations)]
        return [index for index in present.metas if index not in kept]

    async def prune(self, present: Generations) -> list[str]:
        """Delete what is superfluous and return the names."""
        names = self.superfluous(present)
        for name in names:
            await self._client.indices.delete(index=name, ignore_unavailable=True)
        return names
