"""The gate's look at references: records that would name others which are not there any more.

The references are those that the search fields declare (`refers_to`). Records that name nothing known are common: the
agent of a listing may belong to another brokerage. So only what is added to those that are live counts.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from indexer.build.candidate import Candidate
from indexer.context import IndexerContext
from indexer.documents.coverage import ALL_COMPANIES, Coverage
from indexer.errors import RefusedError
from indexer.indices.complete_search import count_completely, search_completely
from indexer.indices.lifecycle import LIVE_QUERY, GenerationLifecycle
from indexer.indices.scan import scan_rows
from indexer.reporting.tolerance import tolerated_count
from mappings import COMPANY, RESOURCES, Resource
from mappings.references import Reference, declared_references

Indices = dict[Resource, str | None]
Query = dict[str, Any]

_MAX_EXAMPLES = 3
# Elasticsearch's limit of one terms query (index.max_terms_count).
_MAX_TERMS = 65_536


class DanglingCount(NamedTuple):
    """How many of the live records with a reference name nothing that is there."""

    dangling: int
    total: int

    @property
    def share(self) -> float:
        """The dangling share, 1 if there are no references."""
        return self.dangling / self.total if self.total else 1.0


async def check_references(context: IndexerContext, candidates: Sequence[Candidate]) -> None:
    """Refuse candidates after whose swap more references would dangle than today.

    Call it once all candidates are refreshed. Refusals are reported and recorded.
    """
    before = {resource: await GenerationLifecycle(context, resource).live() for resource in RESOURCES}
    for candidate in candidates:
        await candidate.lifecycle.refresh(candidate.index)
    built = {candidate.job.resource: candidate for candidate in candidates}
    coverage = candidates[0].job.companies.coverage if candidates else ALL_COMPANIES
    after = before | {resource: candidate.index for resource, candidate in built.items()}
    for target in RESOURCES:
        references = [each for each in declared_references() if each.target is target]
        concerned = [each for each in references if each.resource in built or target in built]
        if after[target] is None or not any(before[each.resource] for each in concerned):
            continue
        identifiers = [await _identifiers(context, state[target], coverage) for state in (before, after)]
        view = _TargetView(context, coverage, *identifiers)
        for reference in concerned:
            candidate = built.get(reference.resource) or built[target]
            if objection := await view.objection(reference, before[reference.resource], after[reference.resource]):
                with suppress(RefusedError):
                    async with candidate.recorded_refusal():
                        candidate.job.refuse_unless_forced(f"{candidate.index}: {objection}")


async def _identifiers(context: IndexerContext, index: str | None, coverage: Coverage) -> set[str]:
    """Return the identifiers of the live records of some companies: about 150 bytes of memory for each."""
    if index is None:
        return set()
    query = {"bool": {"filter": [LIVE_QUERY, coverage.query]}}
    return {row.id async for page in scan_rows(context, index, query=query) for row in page}


@dataclass(frozen=True)
class _TargetView:
    """The identifiers of a resource before and after the swap, to compare references to it.

    Of a run that covers some companies, these are theirs, and so are the records that are counted. A record that names
    one of another company counts as dangling before and after, which makes no difference.
    """

    context: IndexerContext
    coverage: Coverage
    before: set[str]
    after: set[str]

    async def objection(self, reference: Reference, live: str | None, index: str | None) -> str | None:
        """Return the objection to the references of `index`, which replaces `live`, None if there is none."""
        if live is None or index is None:
            return None
        new = await self._count(reference, index, self.after)
        if not new.dangling:
            return None
        old = await self._count(reference, live, self.before)
        added = new.dangling - max(old.dangling, round(old.share * new.total))
        hits, count = await self._lost(reference, index)
        added = max(added, count)
        if added <= self._tolerated(reference, new.total):
            return None
        alias, target = reference.resource.alias, reference.target.alias
        return (
            f"{added:,} of {new.total:,} {alias} would name {target} that are not there, besides the "
            f"{old.dangling:,} that do now: {await self._examples(reference, index, hits)}. Correct the source, load "
            f"{target} and {alias} together, or confirm with --force"
        )

    def _tolerated(self, reference: Reference, total: int) -> float:
        """Return how many new ones are tolerated: none without their company, as they cannot be read."""
        return 0 if reference.target is COMPANY else tolerated_count(self.context.settings.shrink_limit, total)

    async def _count(self, reference: Reference, index: str, identifiers: set[str]) -> DanglingCount:
        dangling = await self._search(reference, index, self._unresolved(reference, identifiers))
        has_reference = {"bool": {"filter": self._with_reference(reference)}}
        total = await count_completely(self.context.client, index, self.context.settings.retry_seconds, has_reference)
        return DanglingCount(dangling["hits"]["total"]["value"], total)

    async def _lost(self, reference: Reference, index: str) -> tuple[list[Any], int]:
        """Return some records that name what only the live generation has, and how many there are."""
        named = [{"terms": {reference.field.name: batch}} for batch in _batches(self.before - self.after)]
        if not named:
            return [], 0
        query = {"bool": {"filter": [self._unresolved(reference, self.after), {"bool": {"should": named}}]}}
        found = (await self._search(reference, index, query))["hits"]
        return found["hits"], found["total"]["value"]

    async def _examples(self, reference: Reference, index: str, hits: list[Any]) -> str:
        """Return some records with what they name, by default any that name nothing that is there."""
        shown = hits or (await self._search(reference, index, self._unresolved(reference, self.after)))["hits"]["hits"]
        name = reference.field.name
        return ", ".join(f"{hit['_id']} names {_value(hit['_source'].get(name))}" for hit in shown)

    def _with_reference(self, reference: Reference) -> list[Query]:
        return [LIVE_QUERY, self.coverage.query, {"exists": {"field": reference.field.name}}]

    def _unresolved(self, reference: Reference, identifiers: set[str]) -> Query:
        """Return the query for live records whose reference has no value among the identifiers."""
        known = [{"terms": {reference.field.name: batch}} for batch in _batches(identifiers)]
        return {"bool": {"filter": self._with_reference(reference), "must_not": known}}

    async def _search(self, reference: Reference, index: str, query: Query) -> Any:
        body = {"query": query, "size": _MAX_EXAMPLES, "source_includes": [reference.field.name]}
        seconds = self.context.settings.retry_seconds
        return await search_completely(self.context.client, index, seconds, **body, track_total_hits=True)


def _batches(identifiers: set[str]) -> Iterator[list[str]]:
    ordered = sorted(identifiers)
    for start in range(0, len(ordered), _MAX_TERMS):
        yield ordered[start : start + _MAX_TERMS]


def _value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
