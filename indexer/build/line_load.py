"""The load of the lines of a resource, by this process or by those of a pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from indexer.build.chunk_writer import ChunkWriter
from indexer.build.local_load import LocalLoad
from indexer.build.parallel.messages import LoadOrder
from indexer.build.parallel.parallel_load import ParallelLoad, open_ranges
from indexer.lock.bulk_tasks import wait_for_bulk_tasks

if TYPE_CHECKING:
    from indexer.build.loader import CandidateLoader
    from indexer.build.parallel.loader_pool import LoaderPool
    from indexer.build.swap_gate import DocumentSample
    from indexer.context import IndexerContext
    from indexer.indices.bulk import BulkSender


@dataclass(frozen=True)
class LineLoad:
    """What writes the lines of a resource into its candidate: `sender`, under the X-Opaque-Id `opaque_id`, or a pool.

    `sample` is offered the documents.
    """

    context: IndexerContext
    sender: BulkSender
    opaque_id: str
    sample: DocumentSample
    pool: LoaderPool

    async def run(self, loader: CandidateLoader) -> None:
        """Load the lines that remain."""
        if self.pool.processes > 1:
            await self._run_in_pool(loader)
        else:
            await self._run_here(loader)

    async def _run_here(self, loader: CandidateLoader) -> None:
        job, progress = loader.job, loader.progress
        known = (job.resource, progress.live, job.companies.coverage)
        writer = ChunkWriter(self.context, *known, self.sender, self.sample)
        with LocalLoad.opened(job, progress, writer) as work:
            await loader.load(work)

    async def _run_in_pool(self, loader: CandidateLoader) -> None:
        """Load, and wait for the requests of processes that ended: none may arrive later."""
        job, progress, settings = loader.job, loader.progress, self.context.settings
        order = LoadOrder(
            job.resource, job.companies, progress.live, self.sender.index, self.opaque_id, self.sender.ranges
        )
        self.pool.exits.clear()
        with open_ranges(job, progress, self.pool.processes, settings) as lines:
            await loader.load(ParallelLoad(lines, self.pool, order, self.sample))
        if exits := self.pool.exits:
            job.report.warnings.append(
                f"processes that loaded lines ended {len(exits)} times, the last one with {exits[-1]}; others have "
                "loaded these lines"
            )
            await wait_for_bulk_tasks(self.context.client, self.opaque_id, settings.retry_seconds)
