"""The rebuild of some companies: what the source changes is written into a copy of the live generation.

The candidate that is built and checked has the documents of the covered companies only. Then Elasticsearch copies the
live generation (`indexer.indices.live_copy`), and the documents of the candidate that differ are written into the copy,
which takes the candidate's place: documents of other companies keep their bytes, versions and stamps.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from indexer.build.build_checkpoint import BuildCheckpoint, BuildPhase, BuildProgress
from indexer.build.build_job import BuildJob
from indexer.changes.document_copies import copy_write, write_all, write_over
from indexer.changes.moves import Move, rebuild_moves
from indexer.changes.taken_identifiers import is_taken
from indexer.changes.write_session import open_write_session
from indexer.context import IndexerContext
from indexer.errors import RefusedError
from indexer.indices.bulk import BulkSender
from indexer.indices.lifecycle import GenerationLifecycle, Generations
from indexer.indices.live_copy import copy_live
from indexer.indices.scan import IndexRow, fetch_documents, look_up_rows, scan_rows

_MAX_NAMED = 10


async def count_others(job: BuildJob, lifecycle: GenerationLifecycle, live: str | None) -> int:
    """Return how many live records belong to companies that the build does not cover."""
    coverage = job.companies.coverage
    if live is None or coverage.companies is None:
        return 0
    await lifecycle.refresh(live)
    return await lifecycle.count(live, coverage.others_query)


def require_same_schema(job: BuildJob, lifecycle: GenerationLifecycle, present: Generations, others: int) -> None:
    """Raise RefusedError if the live index has another schema, and records of other companies, which must be copied."""
    if others and present.live and present.fingerprint(present.live) != lifecycle.fingerprint:
        raise RefusedError(
            f"{present.live} has a different schema than this program declares, and {others:,} records of companies "
            f"that this run does not cover ({job.companies.coverage}): load all companies together, with "
            "--all-companies. Nothing was swapped."
        )


@dataclass
class Graft:
    """The exchange of a candidate that has some companies for a copy of the live generation with their changes.

    `fence` moves the fence of the build to an index; `sender` returns a sender to it, through that fence.
    """

    context: IndexerContext
    job: BuildJob
    lifecycle: GenerationLifecycle
    checkpoint: BuildCheckpoint
    fence: Callable[[str], Awaitable[None]]
    sender: Callable[..., Awaitable[BulkSender]]

    async def run(self, progress: BuildProgress, live: str, catch_up: Callable[[], Awaitable[None]]) -> None:
        """Make the copy, write what differs into it, and make it the candidate. A killed run makes another copy.

        `catch_up` replays the latest updates of the live generation into the candidate.
        """
        candidate = progress.candidate
        if progress.copy is not None:
            await self.lifecycle.delete_candidate(progress.copy)
        copy = self.lifecycle.next_name(await self.lifecycle.generations(), candidate)
        progress.copy = copy
        await self.checkpoint.write(progress)
        await self._copy_live(candidate, live, copy, catch_up)
        await self.fence(copy)
        sender = await self.sender(index=copy)
        async for page in scan_rows(self.context, candidate):
            await self._write_differences(candidate, copy, page, sender)
        await self.lifecycle.finish(copy, merges=False)
        progress.candidate, progress.copy, progress.phase = copy, candidate, BuildPhase.GRAFTED
        self.job.report.generation = copy
        await self.checkpoint.write(progress)

    async def _copy_live(self, candidate: str, live: str, copy: str, catch_up: Callable[[], Awaitable[None]]) -> None:
        """Copy the live generation while no update can write; the candidate has every update before."""
        await catch_up()
        async with open_write_session(self.context, self.job.resource, self.job.report_wait) as session:
            if session.live != live:
                raise RefusedError(f"{live} is no longer live: {candidate} was not swapped in.")
            await catch_up()
            await copy_live(self.context, self.job.resource, self.lifecycle, live, copy)
        await self.lifecycle.refresh(candidate)

    async def _write_differences(self, candidate: str, copy: str, page: list[IndexRow], sender: BulkSender) -> None:
        known = await look_up_rows(self.context, copy, [row.id for row in page])
        changed = [row for row in page if _state(row) != _state(known.get(row.id))]
        differing = [row for row in changed if not self._is_taken(known.get(row.id))]
        self._report_taken([row.id for row in changed if self._is_taken(known.get(row.id))])
        documents = await fetch_documents(self.context, candidate, [row.id for row in differing])
        copies = [copy_write(self.job.resource, document, known.get(document.id)) for document in documents]
        left = [(known[row.id], row) for row in differing if row.id in known]
        moves: list[Move] = [(before, row) for before, row in left if self._is_other(before)]
        await write_all(sender, await rebuild_moves(self.context, moves, copy))
        await write_over(sender, copies, known)

    def _is_other(self, row: IndexRow) -> bool:
        return not self.job.companies.coverage.includes(row.company)

    def _is_taken(self, known: IndexRow | None) -> bool:
        return is_taken(known, self.job.companies.coverage)

    def _report_taken(self, taken: list[str]) -> None:
        if taken:
            names = ", ".join(taken[:_MAX_NAMED])
            self.job.report.warnings.append(
                f"{len(taken):,} records were meanwhile updated for companies that this run does not cover, and stay "
                f"theirs: {names}"
            )


def _state(row: IndexRow | None) -> tuple[object, ...] | None:
    """Return what a document is equal by. The version that Elasticsearch compares with may differ."""
    if row is None:
        return None
    return row.feed_key, row.version, row.content, row.clock, row.sequence, row.deleted, row.reason
