"""Verification of a live index against its source or against an earlier generation."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from functools import partial

from indexer.clock import now_microseconds
from indexer.context import IndexerContext
from indexer.documents.companies import Companies, known_companies
from indexer.documents.coverage import BY_SOURCE, CoverageRequest
from indexer.errors import RefusedError, SourceError, translate_client_errors
from indexer.indices.lifecycle import GenerationLifecycle
from indexer.source.lines import Source, require_present
from indexer.verify.bucket_comparison import BucketComparison
from indexer.verify.findings import VerificationResult
from indexer.verify.sides import IndexSide, SourceSide
from mappings import RESOURCES, Resource
from mappings.generations import parse_generation

THE_SOURCE = "the source"
# The time of an earlier generation's state is unknown, so no record counts as newer.
_LAST_MICROSECOND = 2**53


async def verify_against_source(
    context: IndexerContext,
    source: Source,
    resources: Collection[Resource] = (),
    *,
    covered: CoverageRequest = BY_SOURCE,
    is_full: bool = False,
) -> list[VerificationResult]:
    """Compare the live records with the newest envelopes of a source: the given resources, or all that it has.

    Only records of the companies that the source covers, or that `covered` names, are compared.

    Without a live index nothing is compared, and the result is not equal. `is_full` fetches whole documents and
    compares their stored bytes. Raises SourceError for a resource that the source does not have, or if it has none,
    ElasticsearchError or RefusedError.
    """
    # In a thread, since `has` may read the whole source.
    present = await asyncio.to_thread(require_present, source, RESOURCES)
    if absent := [resource.alias for resource in resources if resource not in present]:
        raise SourceError(f"The source has nothing for: {', '.join(absent)}.")
    with translate_client_errors():
        known = await known_companies(context, source, covered)
        return [
            await _against_source(context, source, known, resource, is_full=is_full)
            for resource in present
            if not resources or resource in resources
        ]


async def _against_source(
    context: IndexerContext, source: Source, known: Companies, resource: Resource, *, is_full: bool
) -> VerificationResult:
    lifecycle = GenerationLifecycle(context, resource)
    live = (await lifecycle.generations()).live
    result = VerificationResult(resource.alias, THE_SOURCE, live, covers=str(known.coverage))
    index = IndexSide(context, live or "", is_full, known.coverage)
    reference = SourceSide(source, resource, known, context.settings, index, result.add_unreadable)
    taken_at = min(source.taken_at(resource), now_microseconds())
    return await _compare(BucketComparison(resource, reference, index, _refresh(lifecycle, live), result, taken_at))


async def verify_against_generation(
    context: IndexerContext,
    resources: Collection[Resource] = (),
    *,
    generation: str | None = None,
    is_full: bool = False,
) -> list[VerificationResult]:
    """Compare the live indices with an earlier generation: the given one, or the one that each replaced.

    Raises RefusedError if there is none, or ElasticsearchError.
    """
    with translate_client_errors():
        pairs = (
            await _pairs(context, resources) if generation is None else [await _pair(context, resources, generation)]
        )
        return [await _against_generation(context, pair, is_full=is_full) for pair in pairs]


@dataclass(frozen=True)
class _GenerationPair:
    lifecycle: GenerationLifecycle
    resource: Resource
    live: str
    earlier: str


async def _pairs(context: IndexerContext, resources: Collection[Resource]) -> list[_GenerationPair]:
    pairs = []
    for resource in [resource for resource in RESOURCES if not resources or resource in resources]:
        lifecycle = GenerationLifecycle(context, resource)
        history = (await lifecycle.generations()).history
        if len(history) > 1:
            pairs.append(_GenerationPair(lifecycle, resource, history[0], history[1]))
        elif resources:
            raise RefusedError(f"{resource.alias} has no earlier generation to compare with: specify a SOURCE.")
    if not pairs:
        raise RefusedError("There is no earlier generation to compare with: specify a SOURCE.")
    return pairs


async def _pair(context: IndexerContext, resources: Collection[Resource], generation: str) -> _GenerationPair:
    prefix = context.connection.prefix
    earlier = generation if generation.startswith(prefix) else prefix + generation
    parsed = parse_generation(earlier)
    by_alias = {context.connection.alias(resource): resource for resource in RESOURCES}
    if parsed is None or parsed.alias not in by_alias:
        raise RefusedError(f"{generation} is not the name of a generation, such as listings-v0003.")
    resource = by_alias[parsed.alias]
    if set(resources) - {resource}:
        raise RefusedError(f"{generation} is a generation of {resource.alias}: do not specify other resources.")
    lifecycle = GenerationLifecycle(context, resource)
    present = await lifecycle.generations()
    if earlier not in present.metas:
        raise RefusedError(f"{earlier} does not exist. Generations: {', '.join(present.metas) or 'none'}.")
    if present.live is None or present.live == earlier:
        raise RefusedError(f"{earlier} can only be compared with another generation, and no other one is live.")
    return _GenerationPair(lifecycle, resource, present.live, earlier)


async def _against_generation(context: IndexerContext, pair: _GenerationPair, *, is_full: bool) -> VerificationResult:
    result = VerificationResult(pair.resource.alias, pair.earlier, pair.live)
    reference = IndexSide(context, pair.earlier, is_full)
    index = IndexSide(context, pair.live, is_full)
    refresh = _refresh(pair.lifecycle, pair.live)
    return await _compare(BucketComparison(pair.resource, reference, index, refresh, result, _LAST_MICROSECOND))


def _refresh(lifecycle: GenerationLifecycle, index: str | None) -> Callable[[], Awaitable[None]]:
    return partial(lifecycle.refresh, index or "")


async def _compare(comparison: BucketComparison) -> VerificationResult:
    started, result = time.monotonic(), comparison.result
    if result.index is not None:
        await comparison.refresh()
        await comparison.run()
    result.seconds = time.monotonic() - started
    return result
