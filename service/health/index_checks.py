"""Checks of all indices that the service reads: a single request, unless one is missing or not readable."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cluster.connection import ConnectionSettings
from cluster.control_index import Mark, mark_id
from mappings import RESOURCES
from mappings.resource import Resource
from service.errors import EngineUnavailable
from service.health.checks import (
    CONTROL_SUBJECT,
    KEYS_SUBJECT,
    Finding,
    FindingState,
    StatusReader,
    cluster_findings,
    get_within_timeout,
    missing_privilege,
)
from service.health.live_index import LiveIndex
from service.health.replaced_data import replaced_finding, replacement
from service.search.cached_value import CachedValue

CachedMarks = Mapping[str, CachedValue[Mark | None]]
# By requested name: the indices behind it, or None without the privilege to read them.
IndicesByName = Mapping[str, Mapping[str, Any] | None]

_PRIVILEGE = "`view_index_metadata` on the aliases, `api_keys` and `control`"


@dataclass(frozen=True)
class IndexInventory:
    """The indices that the service reads, with their aliases, mappings and settings."""

    by_name: IndicesByName
    never_built: frozenset[str] = frozenset()  # aliases that are missing because nothing was ever loaded for them
    marks: Mapping[str, Mark] = field(default_factory=dict)  # by alias

    def replacement(self, alias: str, control_index: str) -> str | None:
        """Return a sentence if the data behind an alias, or the control index, were replaced; None if not."""
        mark, live = self.marks.get(alias), self.by_name[alias] or {}
        control = (self.by_name[control_index] or {}).get(control_index)
        if mark is None or control is None or len(live) != 1:
            return None
        return replacement(mark, *next(iter(live.items())), control)


async def run_checks(
    engine: StatusReader,
    connection: ConnectionSettings,
    marks: CachedMarks | None = None,
    on_inventory: Callable[[IndexInventory], None] | None = None,
) -> list[Finding]:
    """Return the findings of all checks; raise ApiError if Elasticsearch is unavailable.

    `marks` are those that the service has cached, by alias. `on_inventory` gets the indices that were read.
    """
    cluster = await cluster_findings(engine)
    # Read last: checks of the cluster may take seconds, in which an index is loaded or replaced.
    indices = await _with_marks(engine, connection, marks or {})
    if on_inventory is not None:
        on_inventory(indices)
    return [*cluster, *index_findings(indices, connection)]


async def _with_marks(engine: StatusReader, connection: ConnectionSettings, marks: CachedMarks) -> IndexInventory:
    """Return the inventory, read after the marks: a cached one may be that of an index that was replaced since."""
    inventory = replace(await read_inventory(engine, connection), marks=_current(marks))
    suspected = [alias for alias in marks if inventory.replacement(alias, connection.control_index)]
    if not suspected:
        return inventory
    await asyncio.gather(*(marks[alias].refresh() for alias in suspected))
    known = _current(marks)
    return replace(await read_inventory(engine, connection), marks=known)


def _current(marks: CachedMarks) -> dict[str, Mark]:
    cached = {alias: mark.current for alias, mark in marks.items()}
    return {alias: mark for alias, mark in cached.items() if mark is not None}


async def read_inventory(engine: StatusReader, connection: ConnectionSettings) -> IndexInventory:
    """Read the metadata of all indices that the service uses; raise ApiError if Elasticsearch is unavailable."""
    aliases = [*map(connection.alias, RESOURCES)]
    names = [*aliases, connection.keys_index, connection.control_index]
    status, body = await _get(engine, ",".join(names))
    if status == 200:
        return IndexInventory({name: _indices_behind(name, body) for name in names})
    if status == 401:
        raise EngineUnavailable("Elasticsearch rejected the credentials.")
    # One of them is missing or not readable: find out which. A first build publishes its mark after its alias is there.
    without_mark = await _without_mark(engine, connection, aliases)
    responses = await asyncio.gather(*(_get(engine, name) for name in names))
    by_name = {
        name: body if status == 200 else {} if status == 404 else None
        for name, (status, body) in zip(names, responses, strict=True)
    }
    return IndexInventory(by_name, frozenset(alias for alias in without_mark if by_name[alias] == {}))


async def _without_mark(engine: StatusReader, connection: ConnectionSettings, aliases: Sequence[str]) -> list[str]:
    """Return the aliases for which the indexer has never published a watermark."""
    marks = (f"/{connection.control_index}/_doc/{mark_id(alias)}?_source=false" for alias in aliases)
    responses = await asyncio.gather(*(get_within_timeout(engine, mark) for mark in marks))
    return [alias for alias, (status, _) in zip(aliases, responses, strict=True) if status == 404]


async def _get(engine: StatusReader, names: str) -> tuple[int, Any]:
    return await get_within_timeout(engine, f"/{names}?flat_settings=true")


def _indices_behind(name: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    indices = {index: facts for index, facts in body.items() if index == name or name in facts["aliases"]}
    if not indices:
        # Elasticsearch returns 404 for a missing name, so this response came from something else.
        raise ValueError(f"The response lacks {name}.")
    return indices


def index_findings(indices: IndexInventory, connection: ConnectionSettings) -> Iterator[Finding]:
    """Yield the findings for each resource, and for the indices of keys and watermarks."""
    for resource in RESOURCES:
        alias = connection.alias(resource)
        live = indices.by_name[alias]
        if live is None:
            yield missing_privilege(resource.alias, _PRIVILEGE)
        elif alias in indices.never_built:
            yield _nothing_loaded(resource, alias)
        else:
            yield from LiveIndex(resource, alias, live).findings()
            if (detail := indices.replacement(alias, connection.control_index)) is not None:
                yield replaced_finding(resource, detail)
    for index, missing in ((connection.keys_index, _no_keys), (connection.control_index, _no_watermarks)):
        yield _support_index(indices.by_name[index], index, missing(index))


def _nothing_loaded(resource: Resource, alias: str) -> Finding:
    """Return the finding for a resource without data, which is not an error: a brokerage may have no teams."""
    return Finding(
        subject=resource.alias,
        state=FindingState.ABSENT,
        problem="nothing has been loaded yet",
        detail=f"The alias {alias} has never existed.",
        remedy=f"`brokerage index reindex SOURCE {resource.alias}` builds it.",
    )


def _support_index(indices: Mapping[str, Any] | None, index: str, missing: Finding) -> Finding:
    """Return the finding for the index of keys or watermarks; `missing` if it does not exist."""
    if indices is None:
        return missing_privilege(missing.subject, _PRIVILEGE)
    return Finding(subject=missing.subject, detail=f"{index} exists") if indices else missing


def _no_keys(index: str) -> Finding:
    return Finding(
        subject=KEYS_SUBJECT,
        state=FindingState.WARNING,
        problem="no keys have been created yet",
        detail=f"The index {index} does not exist.",
        remedy="`brokerage keys create` creates the first one.",
    )


def _no_watermarks(index: str) -> Finding:
    return Finding(
        subject=CONTROL_SUBJECT,
        state=FindingState.WRONG,
        problem="the indexer's watermarks are missing",
        detail=f"The index {index} does not exist.",
        remedy="`brokerage index reindex SOURCE` creates it.",
    )
