"""The live data of each resource: generations, records, watermark, and the last and unfinished runs of the indexer."""

import asyncio
from functools import partial
from typing import Any

import msgspec

from cluster.index_wear import IndexWear
from mappings import RESOURCES
from mappings.resource import Resource
from service.console.live_wear import read_live_wear
from service.errors import ApiError
from service.health.index_checks import read_inventory
from service.search.cached_value import CacheAges, CachedValue, refresh_all
from service.search.engine import SearchEngine
from service.search.query import term
from service.search.search_response import total_hits
from service.services import Services

# A refresh is six counts, two small documents per resource and one index check, however many consoles are open.
_AGES = CacheAges(fresh_seconds=5.0, stale_seconds=10.0)
# Statistics of all shards, which change with updates and merges.
_WEAR_AGES = CacheAges(fresh_seconds=30.0, stale_seconds=60.0)
_COUNT = {"size": 0, "track_total_hits": True, "query": term("deleted", value=False)}


class LastRun(msgspec.Struct):
    """The last build or update.

    `at` is in seconds since 1970. `lag` is the age in seconds of its latest change when it was published, None without
    changes. `dead` is the number of bad records.
    """

    verb: str
    at: float
    lag: float | None
    dead: int


class UnfinishedBuild(msgspec.Struct):
    """A build that is running, was interrupted, or was refused with the reason `refusal`."""

    candidate: str
    phase: str
    line: int = 0
    refusal: str | None = None


class IndexerRuns(msgspec.Struct):
    """The last run and the unfinished build of a resource, None if there is none."""

    last: LastRun | None = None
    build: UnfinishedBuild | None = None


class ResourceSummary(msgspec.Struct):
    """The live data of one resource.

    `mark` is the watermark in seconds since 1970. None: it does not exist, or a privilege to read it is missing.
    """

    resource: str
    alias: str
    records: int | None = None
    generations: list[str] = []
    replaced: str | None = None
    mark: float | None = None
    sequence: int | None = None
    last: LastRun | None = None
    build: UnfinishedBuild | None = None
    wear: IndexWear | None = None


class ResourceSummaries:
    """Reads the summaries of all resources, with a cache of a few seconds."""

    def __init__(self, services: Services) -> None:
        """Start with empty caches."""
        self._services = services
        self._indices = CachedValue(partial(read_inventory, services.engine, services.connection), _AGES)
        self._wear = CachedValue(partial(read_live_wear, services.engine, services.connection), _WEAR_AGES)
        self._counts = {resource: CachedValue(partial(self._count, resource), _AGES) for resource in RESOURCES}
        self._runs = {resource: CachedValue(partial(self._read_runs, resource), _AGES) for resource in RESOURCES}

    async def read(self) -> list[ResourceSummary]:
        """Return all summaries, as last read if Elasticsearch does not respond within a second."""
        marks, counts, runs = self._services.marks.values(), self._counts.values(), self._runs.values()
        await refresh_all([*marks, self._indices, self._wear, *counts, *runs])
        return [self._summary(resource) for resource in RESOURCES]

    async def _count(self, resource: Resource) -> int | None:
        alias = self._services.connection.alias(resource)
        try:
            return total_hits(await self._services.engine.search_unshared(alias, _COUNT))
        except ApiError:
            # The findings of the health checks include the reason.
            return None

    async def _read_runs(self, resource: Resource) -> IndexerRuns:
        connection = self._services.connection
        try:
            return await read_runs(self._services.engine, connection.control_index, connection.alias(resource))
        except ApiError:
            return IndexerRuns()

    def _summary(self, resource: Resource) -> ResourceSummary:
        alias, inventory = self._services.connection.alias(resource), self._indices.current
        live = (inventory.by_name[alias] if inventory is not None else None) or {}
        replaced = [facts["mappings"].get("_meta", {}).get("replaces") for facts in live.values()]
        mark, runs = self._services.marks[resource].current, self._runs[resource].current or IndexerRuns()
        return ResourceSummary(
            resource=resource.alias,
            alias=alias,
            records=self._counts[resource].current,
            generations=sorted(live),
            replaced=next(filter(None, replaced), None),
            mark=None if mark is None else mark.clock / 1000,
            sequence=None if mark is None else mark.sequence,
            last=runs.last,
            # The document of a build is deleted only after the alias swap.
            build=None if runs.build is None or runs.build.candidate in live else runs.build,
            wear=next(filter(None, map((self._wear.current or {}).get, live)), None),
        )


async def read_runs(engine: SearchEngine, control_index: str, alias: str) -> IndexerRuns:
    """Read what the indexer has stored about runs of a resource; raise ApiError."""
    documents = (engine.get_document(control_index, f"{kind}-{alias}") for kind in ("last", "build"))
    last, build = await asyncio.gather(*documents)
    return IndexerRuns(
        last=None if last is None else _last_run(last),
        build=None if build is None else msgspec.convert(build["progress"], UnfinishedBuild),
    )


def _last_run(entry: dict[str, Any]) -> LastRun:
    # Times are in milliseconds; `newest` is 0 if there was no record.
    lag = max(0, entry["at"] - entry["newest"]) / 1000 if entry["newest"] else None
    return LastRun(verb=entry["verb"], at=entry["at"] / 1000, lag=lag, dead=entry["dead"])
