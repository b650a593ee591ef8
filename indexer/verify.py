"""Proof that nothing was lost: a live index against its source, or against an earlier generation of it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from indexer import companies
from indexer.errors import RefusedError, SourceError, engine_errors
from indexer.lifecycle import Lifecycle
from indexer.verify_findings import Comparison
from indexer.verify_passes import Passes
from indexer.verify_sides import IndexSide, SourceSide
from mappings import COMPANY, RESOURCES
from mappings.names import parse_generation

if TYPE_CHECKING:
    from collections.abc import Collection

    from indexer.companies import Companies
    from indexer.engine import Engine
    from indexer.source import Source
    from indexer.verify_sides import Side
    from mappings import Resource

THE_SOURCE = "the source"
# Nothing is newer: of an earlier generation nobody knows what it could not hold yet.
_LAST_MICROSECOND = 2**53


async def against_source(
    engine: Engine, source: Source, resources: Collection[Resource] = (), *, is_full: bool = False
) -> list[Comparison]:
    """Compare what is live with the newest envelopes of a source: of the given resources, or of all that it has.

    Where nothing is live nothing is compared, and the result is not equal. `is_full` reads whole documents and compares
    the stored bytes of each.
    Raises SourceError for a resource that the source does not have, else EngineError or RefusedError.
    """
    # In a thread, since reading a source may begin with the first question to it.
    present = await asyncio.to_thread(lambda: [one for one in RESOURCES if source.has(one)])
    if absent := [one.alias for one in resources if one not in present]:
        raise SourceError(f"The source has nothing for: {', '.join(absent)}.")
    with engine_errors():
        known = await _companies(engine, source)
        return [
            await _against_source(engine, source, known, resource, is_full=is_full)
            for resource in present
            if not resources or resource in resources
        ]


async def _companies(engine: Engine, source: Source) -> Companies:
    if source.has(COMPANY):
        return await asyncio.to_thread(companies.from_source, source)
    return await companies.from_index(engine.client, engine.connection.alias(COMPANY))


async def _against_source(
    engine: Engine, source: Source, known: Companies, resource: Resource, *, is_full: bool
) -> Comparison:
    lifecycle = Lifecycle(engine, resource)
    live = (await lifecycle.generations()).live
    result = Comparison(resource.alias, THE_SOURCE, live)
    reference = SourceSide(source, resource, known, engine.settings, is_full, result.note_unreadable)
    taken_at = source.taken_at(resource)
    return await _compared(lifecycle, reference, IndexSide(engine, live or "", is_full), result, taken_at)


async def against_generation(
    engine: Engine, resources: Collection[Resource] = (), *, generation: str | None = None, is_full: bool = False
) -> list[Comparison]:
    """Compare what is live with an earlier generation: the given one, or the one that each live one replaced.

    Raises RefusedError where there is none, or EngineError.
    """
    with engine_errors():
        pairs = await _pairs(engine, resources) if generation is None else [await _pair(engine, resources, generation)]
        return [await _against_generation(engine, pair, is_full=is_full) for pair in pairs]


@dataclass(frozen=True)
class _Pair:
    lifecycle: Lifecycle
    resource: Resource
    live: str
    earlier: str


async def _pairs(engine: Engine, resources: Collection[Resource]) -> list[_Pair]:
    pairs = []
    for resource in RESOURCES if not resources else [one for one in RESOURCES if one in resources]:
        lifecycle = Lifecycle(engine, resource)
        history = (await lifecycle.generations()).history
        if len(history) > 1:
            pairs.append(_Pair(lifecycle, resource, history[0], history[1]))
        elif resources:
            raise RefusedError(f"{resource.alias} has no earlier generation to compare with: name a SOURCE.")
    if not pairs:
        raise RefusedError("There is no earlier generation to compare with: name a SOURCE.")
    return pairs


async def _pair(engine: Engine, resources: Collection[Resource], generation: str) -> _Pair:
    prefix = engine.connection.prefix
    earlier = generation if generation.startswith(prefix) else prefix + generation
    parsed = parse_generation(earlier)
    of_alias = {engine.connection.alias(resource): resource for resource in RESOURCES}
    if parsed is None or parsed.alias not in of_alias:
        raise RefusedError(f"{generation} names no generation of a resource, such as listings-v0003.")
    resource = of_alias[parsed.alias]
    if set(resources) - {resource}:
        raise RefusedError(f"{generation} is a generation of {resource.alias}: name no other resource beside it.")
    lifecycle = Lifecycle(engine, resource)
    present = await lifecycle.generations()
    if earlier not in present.metas:
        raise RefusedError(f"There is no {earlier}: there are {', '.join(present.metas) or 'no generations'}.")
    if present.live is None or present.live == earlier:
        raise RefusedError(f"{earlier} can only be compared with another generation that is live.")
    return _Pair(lifecycle, resource, present.live, earlier)


async def _against_generation(engine: Engine, pair: _Pair, *, is_full: bool) -> Comparison:
    result = Comparison(pair.resource.alias, pair.earlier, pair.live)
    reference = IndexSide(engine, pair.earlier, is_full)
    index = IndexSide(engine, pair.live, is_full)
    return await _compared(pair.lifecycle, reference, index, result, _LAST_MICROSECOND)


async def _compared(
    lifecycle: Lifecycle, reference: Side, index: IndexSide, result: Comparison, taken_at: int
) -> Comparison:
    started = time.monotonic()
    if result.index is not None:
        refresh = partial(lifecycle.refresh, result.index)
        await refresh()
        await Passes(reference, index, refresh, result, taken_at).run()
    result.seconds = time.monotonic() - started
    return result
