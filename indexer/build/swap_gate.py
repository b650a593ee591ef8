"""The gate before a swap: the candidate must match the source, and resemble the generation that it replaces."""

import heapq
from collections.abc import Collection, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import NamedTuple

from indexer.build.build_checkpoint import BuildProgress
from indexer.build.build_job import BuildJob
from indexer.build.identity_gate import find_removals, removal_objection, vanished_companies
from indexer.changes.stamps import PENDING_VANISHED
from indexer.context import IndexerContext
from indexer.documents.builder import PendingDocument
from indexer.errors import RefusedError
from indexer.indices.complete_search import search_completely
from indexer.indices.lifecycle import LIVE_QUERY, GenerationLifecycle, future_query
from indexer.indices.scan import fetch_documents, scan_rows
from indexer.reporting.enumeration import listed
from indexer.reporting.tolerance import tolerated_count
from indexer.settings import IndexerSettings

_SAMPLE_SIZE = 100
# Spreads the choice over the records without favouring any: an odd constant near 2**64 divided by the golden ratio.
_RANK_MULTIPLIER = 0x9E3779B97F4A7C15


class SampledDocument(NamedTuple):
    """The version and the record of a document that was written; those of the highest ranks are kept."""

    rank: int
    id: str
    version: int
    record: bytes


@dataclass
class DocumentSample:
    """A sample of the written documents, the same for every read of a source, to compare with what is stored."""

    _chosen: list[SampledDocument] = field(default_factory=list)
    _known: set[SampledDocument] = field(default_factory=set)

    def offer(self, document: PendingDocument) -> None:
        """Keep a document if it is among the chosen."""
        if document.record is None:
            return
        rank = -((document.content * _RANK_MULTIPLIER) % 2**64)
        if len(self._chosen) < _SAMPLE_SIZE or rank > self._chosen[0].rank:
            self.merge([SampledDocument(rank, document.id, document.version, document.record)])

    def merge(self, documents: Iterable[SampledDocument]) -> None:
        """Keep those of the documents that are among the chosen."""
        for document in documents:
            heapq.heappush(self._chosen, document)
            if len(self._chosen) > _SAMPLE_SIZE:
                heapq.heappop(self._chosen)

    def added(self) -> list[SampledDocument]:
        """Return the chosen documents that were not chosen at the last call."""
        known, self._known = self._known, set(self._chosen)
        return [document for document in self._chosen if document not in known]

    async def find_differences(self, context: IndexerContext, index: str, tied: Collection[str] = ()) -> list[str]:
        """Return the identifiers whose stored record differs from what was sent, unless its version is newer.

        Of the `tied` records, another content with the same version may be stored.
        """
        chosen = [document.id for document in self._chosen]
        stored = {document.id: document for document in await fetch_documents(context, index, chosen)}
        return sorted(
            identifier
            for _, identifier, version, record in self._chosen
            if (document := stored.get(identifier)) is None
            or document.version < version
            or (document.version == version and record not in document.source and identifier not in tied)
        )


@dataclass(frozen=True)
class SwapGate:
    """The checks between a candidate and its swap. An objection is raised, or recorded if force overrides it."""

    context: IndexerContext
    job: BuildJob
    lifecycle: GenerationLifecycle
    sample: DocumentSample

    async def check_loaded(self, candidate: str, accepted: int, tied: Collection[str]) -> None:
        """Check after loading that every accepted record is there, and every sampled one byte for byte.

        Of the `tied` records, the source has several contents with the same version.
        """
        count = await self.lifecycle.count(candidate)
        if count != accepted:
            raise RefusedError(f"{candidate} has {count} documents, but {accepted} were accepted: run it again.")
        if differences := await self.sample.find_differences(self.context, candidate, tied):
            raise RefusedError(f"{candidate} differs from what was read: {', '.join(differences[:10])}. Run it again.")

    async def check_vanished(self, progress: BuildProgress) -> None:
        """Check that no record vanishes while lines are unreadable that may be its own."""
        vanished, unreadable = self.job.report.vanished, self._unreadable_lines(progress)
        if not vanished or not unreadable:
            return
        pages = scan_rows(self.context, progress.candidate, query={"range": {"sequence": {"gte": PENDING_VANISHED}}})
        async with aclosing(pages):
            names = [row.id for row in await anext(pages, [])]
        self.job.refuse_unless_forced(
            f"{progress.candidate} would lose {listed(names, vanished)}, which may be in lines that cannot be read: "
            f"{unreadable}. Correct these lines"
        )

    def _unreadable_lines(self, progress: BuildProgress) -> str:
        """Return the lines without a readable identifier, or without a resource, as a text; empty for none."""
        letters = self.job.dead_letters
        named = [f"line {number}" for number in sorted(letters.unidentified)]
        parts = [f"{listed(named, len(named))}, see {letters.existing_path}"] if named else []
        parts += [f"{progress.stray} line{'s'[: progress.stray - 1]} without a resource"] if progress.stray else []
        return " and ".join(parts)

    async def check_bounds(self, candidate: str, live: str | None) -> None:
        """Check after reconciliation that dead letters, removed and added records are within their limits."""
        self.job.check_dead_letters()
        await self._name_future_records(candidate)
        if live is None:
            return
        own = {"bool": {"filter": [LIVE_QUERY, self.job.companies.coverage.query]}}
        before, after = await self.lifecycle.count(live, own), await self.lifecycle.count(candidate, own)
        if not before and self.job.covered is not None:
            return
        removals = await find_removals(self.context, candidate, live)
        self.job.report.vanished_companies = vanished_companies(removals)
        settings = self.context.settings
        removal = removal_objection(self.job.resource, removals, before, settings.shrink_limit)
        for objection in count_objections(settings, before, after) or filter(None, [removal]):
            self.job.refuse_unless_forced(f"{candidate} {objection}")

    async def _name_future_records(self, candidate: str) -> None:
        """Report records that stay live although they are dated in the future: the source had no readable state."""
        settings, client = self.context.settings, self.context.client
        body = {"query": future_query(settings.future_seconds), "size": 10, "source": False, "track_total_hits": True}
        hits = (await search_completely(client, candidate, settings.retry_seconds, **body))["hits"]
        if count := hits["total"]["value"]:
            examples = ", ".join(hit["_id"] for hit in hits["hits"])
            self.job.report.warnings.append(
                f"{candidate} keeps {count} records dated in the future ({examples}): correct updated_at at the source "
                "and send them again; any state with a right time replaces them"
            )


def count_objections(settings: IndexerSettings, before: int, after: int) -> list[str]:
    """Return the objections to the number of live records, which was `before`."""
    if before and not after:
        return [f"has no records, the live generation has {before:,}: the source may be incomplete"]
    if after - before > tolerated_count(settings.growth_limit, before):
        return [
            f"has {after:,} records, the live generation has {before:,}: it gains more than BROKERAGE_GROWTH_LIMIT "
            f"({settings.growth_limit:g}) allows"
        ]
    return []
