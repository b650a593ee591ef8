"""The gate's look at identities: which live records a candidate would remove, from which companies."""

from collections.abc import Collection
from dataclasses import dataclass, field

from indexer.changes.stamps import PENDING
from indexer.context import IndexerContext
from indexer.indices.complete_search import search_completely
from indexer.indices.lifecycle import DELETED_QUERY, LIVE_QUERY
from indexer.indices.scan import IndexRow, look_up_rows, scan_rows
from indexer.reporting.enumeration import listed
from indexer.reporting.tolerance import tolerated_count
from mappings import COMPANY, Resource
from mappings.stored_document import TombstoneReason, is_move, split_document_id

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
        """Count a tombstone of the candidate."""
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
    await _count_live(context, live, [each for each in found.values() if each.count >= _MIN_EMPTIED])
    return sorted(found.values(), key=lambda each: -each.count)


def vanished_companies(removals: list[CompanyRemovals]) -> dict[str, int]:
    """Return how many records the source lacks, by company: those of the companies that lose most."""
    found = {each.company: each.vanished for each in removals if each.vanished}
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
    """Set how many live records some companies have."""
    for start in range(0, len(removals), _COMPANIES_PER_SEARCH):
        batch = removals[start : start + _COMPANIES_PER_SEARCH]
        filters = {each.company: {"term": {"company": each.company}} for each in batch}
        aggregation = {"companies": {"filters": {"filters": filters}}}
        seconds = context.settings.retry_seconds
        response = await search_completely(context.client, live, seconds, size=0, query=LIVE_QUERY, aggs=aggregation)
        buckets = response["aggregations"]["companies"]["buckets"]
        for each in batch:
            each.live = buckets[each.company]["doc_count"]


def removal_objection(resource: Resource, removals: list[CompanyRemovals], live: int, share: float) -> str | None:
    """Return the objection to what a candidate would remove, None if there is none.

    `live` is the number of live records, `share` of which may go. No company may be lacking.
    """
    lacking = [each.company for each in removals if each.vanished]
    if resource is COMPANY and lacking:
        names = listed(lacking, len(lacking), _MAX_SHOWN)
        return f"would remove {len(lacking):,} of {live:,} live companies: {names}. {_ADVICE}"
    total = sum(each.count - each.moved for each in removals)
    excessive = [each for each in removals if each.is_excessive(share)]
    if not excessive and total <= tolerated_count(share, live):
        return None
    largest = [str(each) for each in excessive or removals]
    return (
        f"would remove {sum(each.count for each in removals):,} of {live:,} live {resource.alias}, more than "
        f"BROKERAGE_SHRINK_LIMIT ({share:g}) allows: {listed(largest, len(largest), _MAX_SHOWN)}. {_ADVICE}"
    )
