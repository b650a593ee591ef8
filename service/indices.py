"""Looking at all indices that the service reads: with one request while they are there and may be looked at."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cluster.control import mark_id
from mappings import RESOURCES
from service.errors import EngineUnavailable
from service.live_index import LiveIndex
from service.soundness import CONTROL, KEYS, Finding, State, asked, cluster_findings, without_right

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cluster.connection import ConnectionSettings
    from mappings.resource import Resource
    from service.soundness import Asks

    # By the name that was asked for: the indices behind it, or None where they may not be looked at.
    Behind = Mapping[str, Mapping[str, Any] | None]

_RIGHT = "`view_index_metadata` on the aliases, `api_keys` and `control`"


@dataclass(frozen=True)
class Indices:
    """What Elasticsearch tells of the indices that the service reads."""

    behind: Behind
    unbuilt: frozenset[str] = frozenset()  # aliases that are missing since nothing was ever loaded for them


async def examine(engine: Asks, connection: ConnectionSettings) -> list[Finding]:
    """Return what every check finds; raise ApiError where Elasticsearch is away."""
    indices = await look(engine, connection)
    return [*await cluster_findings(engine), *index_findings(indices, connection)]


async def look(engine: Asks, connection: ConnectionSettings) -> Indices:
    """Return what Elasticsearch tells of every index that the service reads; raise ApiError where it is away."""
    aliases = [*map(connection.alias, RESOURCES)]
    names = [*aliases, connection.keys_index, connection.control_index]
    status, answer = await _get(engine, ",".join(names))
    if status == 200:
        return Indices({name: _behind(name, answer) for name in names})
    if status == 401:
        raise EngineUnavailable("Elasticsearch refuses the credentials.")
    # One of them is missing, or is not to be looked at: which one?
    answers = await asyncio.gather(*(_get(engine, name) for name in names))
    behind = {
        name: found if status == 200 else {} if status == 404 else None
        for name, (status, found) in zip(names, answers, strict=True)
    }
    return Indices(behind, await _unbuilt(engine, connection, [alias for alias in aliases if behind[alias] == {}]))


async def _unbuilt(engine: Asks, connection: ConnectionSettings, missing: Sequence[str]) -> frozenset[str]:
    """Return those aliases of which the indexer has never published a mark."""
    marks = (f"/{connection.control_index}/_doc/{mark_id(alias)}?_source=false" for alias in missing)
    answers = await asyncio.gather(*(asked(engine, mark) for mark in marks))
    return frozenset(alias for alias, (status, _) in zip(missing, answers, strict=True) if status == 404)


async def _get(engine: Asks, names: str) -> tuple[int, Any]:
    return await asked(engine, f"/{names}?flat_settings=true")


def _behind(name: str, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    found = {index: facts for index, facts in answer.items() if index == name or name in facts["aliases"]}
    if not found:
        # What is missing is a 404 and never nothing: something else than Elasticsearch made this answer.
        raise ValueError(f"Of {name} nothing is told.")
    return found


def index_findings(indices: Indices, connection: ConnectionSettings) -> Iterator[Finding]:
    """Yield what is found of each resource, and of the indices of keys and marks."""
    for resource in RESOURCES:
        alias = connection.alias(resource)
        found = indices.behind[alias]
        if found is None:
            yield without_right(resource.alias, _RIGHT)
        elif alias in indices.unbuilt:
            yield _nothing_loaded(resource, alias)
        else:
            yield from LiveIndex(resource, alias, found).findings()
    for index, missing in ((connection.keys_index, _no_keys), (connection.control_index, _no_marks)):
        yield _support(indices.behind[index], index, missing(index))


def _nothing_loaded(resource: Resource, alias: str) -> Finding:
    """Return that requests for a resource get 503, which is no fault: a brokerage without teams loads none."""
    return Finding(
        subject=resource.alias,
        state=State.ABSENT,
        problem="nothing has been loaded yet",
        detail=f"There is no alias {alias}, nor was there one.",
        remedy=f"`brokerage index reindex SOURCE {resource.alias}` builds it.",
    )


def _support(found: Mapping[str, Any] | None, index: str, missing: Finding) -> Finding:
    """Return how an index beside those of the resources is: `missing` is what is found where it is not there."""
    if found is None:
        return without_right(missing.subject, _RIGHT)
    return Finding(subject=missing.subject, detail=f"{index} is there") if found else missing


def _no_keys(index: str) -> Finding:
    return Finding(
        subject=KEYS,
        state=State.WARNING,
        problem="there are none yet",
        detail=f"There is no index {index}.",
        remedy="`brokerage keys create` makes the first one.",
    )


def _no_marks(index: str) -> Finding:
    return Finding(
        subject=CONTROL,
        state=State.WRONG,
        problem="the indexer's marks are not there",
        detail=f"There is no index {index}.",
        remedy="`brokerage index reindex SOURCE` makes it.",
    )
