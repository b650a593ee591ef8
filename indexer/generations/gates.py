"""The gates before a swap: a candidate must resemble the generation that it replaces.

A gate returns a refusal of a candidate, or nothing; `indexer.rebuild` names them all. They look at the documents, at
identities: which live records a candidate would remove, from which companies; and at references: records that would
name others which are not there any more. The references are those that the search fields declare (`refers_to`). Records
that name nothing known are common: the agent of a listing may belong to another brokerage. So only what is added to
those that are live counts.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from cluster.terminal import counted
from indexer.changes.stamps import PENDING, PENDING_VANISHED
from indexer.documents.companies import Coverage
from indexer.errors import ObjectionError, RefusedError
from indexer.generations.candidate import Candidate
from indexer.generations.lifecycle import DELETED_QUERY, LIVE_QUERY, future_query, live_generations
from indexer.reporting.report import DeadLetters, listed, tolerated_count
from indexer.scan import IndexRow, look_up_rows, scan_rows
from indexer.settings import IndexerContext, IndexerSettings
from mappings import COMPANY, RESOURCES, Reference, Resource, declared_references
from mappings.stored_document import TombstoneReason, is_move, split_document_id

GateOfAll: TypeAlias = Callable[[Sequence[Candidate]], AsyncIterator[tuple[Candidate, RefusedError]]]


async def losses_in_unreadable_lines(candidate: Candidate) -> RefusedError | None:
    """Object if records vanish while lines are unreadable that may be theirs."""
    vanished, unreadable = candidate.job.report.vanished, _unreadable_lines(candidate.job.dead_letters)
    if not vanished or not unreadable:
        return None
    query = {"range": {"sequence": {"gte": PENDING_VANISHED}}}
    async with aclosing(scan_rows(candidate.context, candidate.index, query=query)) as pages:
        names = [row.id for row in await anext(pages, [])]
    return ObjectionError(
        f"{candidate.index} would lose {listed(names, vanished)}, which may be in lines that cannot be read: "
        f"{unreadable}. Correct these lines"
    )


def _unreadable_lines(letters: DeadLetters) -> str:
    """Return the lines without a readable identifier, or without a resource, as a text; empty for none."""
    named, stray = [f"line {number}" for number in sorted(letters.unidentified)], letters.stray
    parts = [f"{listed(named, len(named))}, see {letters.existing_path}"] if named else []
    parts += [f"{stray} line{'s'[: stray - 1]} without a resource"] if stray else []
    return " and ".join(parts)


# Of the lines of a first load that may be bad without a question.
_FIRST_LOAD_SHARE = 0.1


async def too_many_dead_letters(candidate: Candidate) -> RefusedError | None:
    job, report = candidate.job, candidate.job.report
    excess = job.excess_dead_letters(at_end=True)
    is_questioned = job.questions_first_loads and job.resource is not COMPANY
    if not is_questioned or report.dead <= _FIRST_LOAD_SHARE * report.read:
        return excess
    live = candidate.progress.live
    if live is not None and await candidate.lifecycle.count(live, _own_query(candidate)):
        return excess
    report.is_first_load = True
    return ObjectionError(
        f"{report.dead:,} of {report.read:,} {report.resource} are bad, in their first load for {report.covers}: see "
        f"{report.dead_letters}. Correct the source, or confirm with --force"
    )


def _own_query(candidate: Candidate) -> dict[str, Any]:
    """Return the query for the live records of the companies that the build covers."""
    return {"bool": {"filter": [LIVE_QUERY, candidate.job.companies.coverage.query]}}


async def too_many_changes(candidate: Candidate) -> RefusedError | None:
    job, settings, live = candidate.job, candidate.context.settings, candidate.progress.live
    if live is None:
        return None
    await _name_future_records(candidate)
    coverage, count = job.companies.coverage, candidate.lifecycle.count
    own = _own_query(candidate)
    before, after = await count(live, own), await count(candidate.index, own)
    if not before and coverage.companies is not None:
        return None
    removals = await find_removals(candidate.context, candidate.index, live)
    job.report.vanished_companies = vanished_companies(removals)
    removal = removal_objection(job.resource, removals, before, settings.shrink_limit)
    objection = count_objection(settings, before, after) or removal
    return ObjectionError(f"{candidate.index} {objection}") if objection else None


async def _name_future_records(candidate: Candidate) -> None:
    """Report records that stay live although they are dated in the future: the source had no readable state."""
    context, index = candidate.context, candidate.index
    body = {"query": future_query(context.settings.future_seconds), "size": 10, "source": False}
    hits = (await context.cluster.search_completely(index, **body, track_total_hits=True))["hits"]
    if count := hits["total"]["value"]:
        examples = ", ".join(hit["_id"] for hit in hits["hits"])
        candidate.job.report.warnings.append(
            f"{index} keeps {counted(count, 'record')} dated in the future ({examples}): correct updated_at at the "
            "source and send them again; any state with a right time replaces them"
        )


def count_objection(settings: IndexerSettings, before: int, after: int) -> str | None:
    """Return the objection to the number of live records, which was `before`, None if there is none."""
    if before and not after:
        return f"has no records, the live version has {before:,}: the source may be incomplete"
    if after - before > tolerated_count(settings.growth_limit, before):
        return (
            f"has {after:,} records, the live version has {before:,}: it gains more than BROKERAGE_GROWTH_LIMIT "
            f"({settings.growth_limit:g}) allows"
        )
    return None


_MAX_SHOWN = 3
_MAX_REPORTED = 20
# A company that loses its last records of a resource is objected to from so many on: one or two come and go.
_MIN_EMPTIED = 3
_COMPANIES_PER_SEARCH = 500
_ADVICE = "Correct the source, or confirm with --force"


@dataclass
class CompanyRemovals:
    """The live records that one company would lose: those that the source lacks, deletes, or has in another company."""

    company: str
    count: int = 0
    moved: int = 0
    vanished: int = 0
    live: int = 0  # how many it has; 0 if unknown, for a few that are always tolerated
    examples: list[str] = field(default_factory=list)

    def add(self, row: IndexRow) -> None:
        self.count += 1
        self.moved += is_move(row.id)
        self.vanished += row.reason == TombstoneReason.VANISHED
        if len(self.examples) < _MAX_SHOWN:
            self.examples.append(split_document_id(row.id)[1])

    def is_excessive(self, share: float) -> bool:
        """Whether the company would lose more than `share` of its records, or the last of several."""
        is_emptied = share < 1 and self.count >= _MIN_EMPTIED and self.count >= self.live
        return is_emptied or self.count > tolerated_count(share, self.live)

    def __str__(self) -> str:
        of_all = f" of {self.live:,}" if self.live else ""
        moved = f", {self.moved:,} of them to other companies" if self.moved else ""
        return f"{self.count:,}{of_all} of {self.company} ({listed(self.examples, self.count, _MAX_SHOWN)}{moved})"


async def find_removals(context: IndexerContext, candidate: str, live: str) -> list[CompanyRemovals]:
    """Return the removals of each company, the largest first; call before the candidate is stamped.

    Records that updates have deleted since the build began do not count.
    """
    found: dict[str, CompanyRemovals] = {}
    query = {"bool": {"filter": [DELETED_QUERY, {"range": {"sequence": {"gte": PENDING}}}]}}
    async for page in scan_rows(context, candidate, query=query):
        for row in await _removed(context, live, page):
            found.setdefault(row.company, CompanyRemovals(row.company)).add(row)
    await _count_live(context, live, [removal for removal in found.values() if removal.count >= _MIN_EMPTIED])
    return sorted(found.values(), key=lambda removal: -removal.count)


def vanished_companies(removals: list[CompanyRemovals]) -> dict[str, int]:
    """Return how many records the source lacks, by company: those of the companies that lose most."""
    found = {removal.company: removal.vanished for removal in removals if removal.vanished}
    return dict(list(found.items())[:_MAX_REPORTED])


async def _removed(context: IndexerContext, live: str, page: Collection[IndexRow]) -> list[IndexRow]:
    """Return the tombstones of live records: a source may also delete records that were never live."""
    unclear = [row.id for row in page if row.reason == TombstoneReason.DELETED and not is_move(row.id)]
    known = await look_up_rows(context, live, unclear)
    return [row for row in page if _is_removal(row, known.get(row.id))]


def _is_removal(row: IndexRow, live: IndexRow | None) -> bool:
    if row.reason == TombstoneReason.DELETED:
        return live is not None and not live.deleted
    return True


async def _count_live(context: IndexerContext, live: str, removals: list[CompanyRemovals]) -> None:
    for start in range(0, len(removals), _COMPANIES_PER_SEARCH):
        batch = removals[start : start + _COMPANIES_PER_SEARCH]
        filters = {removal.company: {"term": {"company": removal.company}} for removal in batch}
        aggregation = {"companies": {"filters": {"filters": filters}}}
        response = await context.cluster.search_completely(live, size=0, query=LIVE_QUERY, aggs=aggregation)
        buckets = response["aggregations"]["companies"]["buckets"]
        for removal in batch:
            removal.live = buckets[removal.company]["doc_count"]


def removal_objection(resource: Resource, removals: list[CompanyRemovals], live: int, share: float) -> str | None:
    """Return the objection to what a candidate would remove, None if there is none.

    `live` is the number of live records, `share` of which may go. No company may be lacking.
    """
    lacking = [removal.company for removal in removals if removal.vanished]
    if resource is COMPANY and lacking:
        names = listed(lacking, len(lacking), _MAX_SHOWN)
        return f"would remove {len(lacking):,} of {live:,} live companies: {names}. {_ADVICE}"
    total = sum(removal.count - removal.moved for removal in removals)
    excessive = [removal for removal in removals if removal.is_excessive(share)]
    if not excessive and total <= tolerated_count(share, live):
        return None
    largest = [str(removal) for removal in excessive or removals]
    return (
        f"would remove {sum(removal.count for removal in removals):,} of {live:,} live {resource.alias}, more than "
        f"BROKERAGE_SHRINK_LIMIT ({share:g}) allows: {listed(largest, len(largest), _MAX_SHOWN)}. {_ADVICE}"
    )


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


async def dangling_references(candidates: Sequence[Candidate]) -> AsyncIterator[tuple[Candidate, RefusedError]]:
    """Yield the objections to candidates after whose swap more references would dangle than today."""
    context, coverage = candidates[0].context, candidates[0].job.companies.coverage
    live = await live_generations(context)
    if not live:
        return
    for candidate in candidates:
        await candidate.lifecycle.refresh(candidate.index)
    built = {candidate.job.resource: candidate for candidate in candidates}
    before: Indices = {resource: live.get(resource) for resource in RESOURCES}
    after = before | {resource: candidate.index for resource, candidate in built.items()}
    for target in RESOURCES:
        references = [reference for reference in declared_references() if reference.target is target]
        concerned = [reference for reference in references if reference.resource in built or target in built]
        if after[target] is None or not any(before[reference.resource] for reference in concerned):
            continue
        identifiers = [await _identifiers(context, state[target], coverage) for state in (before, after)]
        view = _TargetView(context, coverage, *identifiers)
        for reference in concerned:
            candidate = built.get(reference.resource) or built[target]
            if objection := await view.objection(reference, before[reference.resource], after[reference.resource]):
                yield candidate, ObjectionError(f"{candidate.index}: {objection}")


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
            f"{added:,} of {new.total:,} {alias} would name {target} that are not there, in addition to the "
            f"{old.dangling:,} that do now: {await self._examples(reference, index, hits)}. Correct the source, load "
            f"{target} and {alias} together, or confirm with --force"
        )

    def _tolerated(self, reference: Reference, total: int) -> float:
        """Return how many new ones are tolerated: none without their company, as they cannot be read."""
        return 0 if reference.target is COMPANY else tolerated_count(self.context.settings.shrink_limit, total)

    async def _count(self, reference: Reference, index: str, identifiers: set[str]) -> DanglingCount:
        dangling = await self._search(reference, index, self._unresolved(reference, identifiers))
        has_reference = {"bool": {"filter": self._with_reference(reference)}}
        total = await self.context.cluster.count_completely(index, has_reference)
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
        return await self.context.cluster.search_completely(index, **body, track_total_hits=True)


def _batches(identifiers: set[str]) -> Iterator[list[str]]:
    ordered = sorted(identifiers)
    for start in range(0, len(ordered), _MAX_TERMS):
        yield ordered[start : start + _MAX_TERMS]


def _value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
