"""What Elasticsearch holds of each resource: generations, how many records, up to when they are, how they came."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from mappings import RESOURCES
from service.answer import total
from service.console.runs import Build, Last, Runs, read_runs
from service.errors import ApiError
from service.freshness import Ages, Kept
from service.indices import look
from service.metrics import renewed
from service.query import term

if TYPE_CHECKING:
    from mappings.resource import Resource
    from service.services import Services

# Six counts, two small documents of each resource and a look at the indices, however many consoles are open.
_AGES = Ages(fresh=5.0, stale=10.0)
_COUNT = {"size": 0, "track_total_hits": True, "query": term("deleted", value=False)}


class Held(msgspec.Struct):
    """What is live of one resource, and what the indexer did and does to it.

    `mark` is seconds since 1970; None is what is not there or may not be known.
    """

    resource: str
    alias: str
    records: int | None = None
    generations: list[str] = []
    replaced: str | None = None
    mark: float | None = None
    sequence: int | None = None
    last: Last | None = None
    build: Build | None = None


class Holdings:
    """Reads all of it, at most every few seconds."""

    def __init__(self, services: Services) -> None:
        """Nothing is asked yet."""
        self._services = services
        self._indices = Kept(partial(look, services.engine, services.connection), _AGES)
        self._counts = {resource: Kept(partial(self._count, resource), _AGES) for resource in RESOURCES}
        self._runs = {resource: Kept(partial(self._read_runs, resource), _AGES) for resource in RESOURCES}

    async def read(self) -> list[Held]:
        """Return what is known of each resource, as last read where Elasticsearch does not answer within a second."""
        marks, counts, runs = self._services.marks.values(), self._counts.values(), self._runs.values()
        await renewed([*marks, self._indices, *counts, *runs])
        return [self._held(resource) for resource in RESOURCES]

    async def _count(self, resource: Resource) -> int | None:
        try:
            return total(await self._services.engine.search_anew(self._services.connection.alias(resource), _COUNT))
        except ApiError:
            # Why it cannot be counted is among the findings.
            return None

    async def _read_runs(self, resource: Resource) -> Runs:
        connection = self._services.connection
        try:
            return await read_runs(self._services.engine, connection.control_index, connection.alias(resource))
        except ApiError:
            return Runs()

    def _held(self, resource: Resource) -> Held:
        alias, indices = self._services.connection.alias(resource), self._indices.current
        found = (indices.behind[alias] if indices is not None else None) or {}
        replaced = [facts["mappings"].get("_meta", {}).get("replaces") for facts in found.values()]
        mark, runs = self._services.marks[resource].current, self._runs[resource].current or Runs()
        return Held(
            resource=resource.alias,
            alias=alias,
            records=self._counts[resource].current,
            generations=sorted(found),
            replaced=next(filter(None, replaced), None),
            mark=None if mark is None else mark.clock / 1000,
            sequence=None if mark is None else mark.sequence,
            last=runs.last,
            # It is forgotten only behind the swap.
            build=None if runs.build is None or runs.build.candidate in found else runs.build,
        )
