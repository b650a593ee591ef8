"""The load of the lines of a resource, by this process or by those of a pool."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from indexer.build.chunk_writer import ChunkWriter
from indexer.build.hosts.shared_documents import HostOrder
from indexer.build.local_load import LocalLoad
from indexer.build.parallel.messages import LoadOrder
from indexer.build.parallel.parallel_load import ParallelLoad, open_ranges
from indexer.lock.bulk_tasks import wait_for_bulk_tasks
from indexer.lock.fence import close_to_hosts, hosts_opaque_id, open_to_hosts
from indexer.source.line_ranges import FileRanges

if TYPE_CHECKING:
    from indexer.build.hosts.shared_run import SharedRun
    from indexer.build.loader import CandidateLoader
    from indexer.build.parallel.loader_pool import LoaderPool
    from indexer.build.swap_gate import DocumentSample
    from indexer.context import IndexerContext
    from indexer.indices.bulk import BulkSender
    from indexer.lock.distributed_lock import DistributedLock
    from indexer.source.line_ranges import LineBatches


class LoadMeans(NamedTuple):
    """What a run loads with: under its lock, with the processes of a pool and, if it is shared, other hosts."""

    lock: DistributedLock
    pool: LoaderPool
    shared: SharedRun | None = None


@dataclass(frozen=True)
class LineLoad:
    """What writes the lines of a resource into its candidate: `sender`, under the X-Opaque-Id `opaque_id`, or a pool.

    `sample` is offered the documents. If the run is `shared`, other hosts load, too.
    """

    context: IndexerContext
    sender: BulkSender
    opaque_id: str
    sample: DocumentSample
    pool: LoaderPool
    shared: SharedRun | None = None

    async def run(self, loader: CandidateLoader) -> None:
        """Load the lines that remain. Afterwards, only this run writes into the candidate."""
        if self.pool.processes > 1 or self.shared is not None:
            await self._run_in_pool(loader)
        else:
            await self._run_here(loader)
        if loader.progress.is_shared:
            alias = self.context.connection.alias(loader.job.resource)
            await close_to_hosts(self.context, alias, loader.progress.candidate)

    async def _run_here(self, loader: CandidateLoader) -> None:
        job, progress = loader.job, loader.progress
        known = (job.resource, progress.live, job.companies.coverage)
        writer = ChunkWriter(self.context, *known, self.sender, self.sample)
        with LocalLoad.opened(job, progress, writer) as work:
            await loader.load(work)

    async def _run_in_pool(self, loader: CandidateLoader) -> None:
        """Load, and wait for the requests of processes that ended: none may arrive later."""
        job, progress, settings = loader.job, loader.progress, self.context.settings
        written = (self.sender.index, self.opaque_id, self.sender.ranges)
        order = LoadOrder(job.resource, job.companies, progress.live, *written)
        pool, is_shared = self.pool, self.shared is not None
        pool.exits.clear()
        with open_ranges(job, progress, pool.processes, settings, is_shared=is_shared) as lines:
            async with await self._hosts(loader, lines):
                await loader.load(ParallelLoad(lines, pool, order, self.sample, is_shared=is_shared))
        if exits := pool.exits:
            job.report.warnings.append(
                f"processes that loaded lines ended {len(exits)} times, the last one with {exits[-1]}; others have "
                "loaded these lines"
            )
            await wait_for_bulk_tasks(self.context.client, self.opaque_id, settings.retry_seconds)

    async def _hosts(
        self, loader: CandidateLoader, lines: FileRanges | LineBatches
    ) -> AbstractAsyncContextManager[None]:
        """Return the context in which other hosts load, too; nothing if the build, or its file, is not shared."""
        if self.shared is None or not isinstance(lines, FileRanges):
            return nullcontext()
        job, progress, index = loader.job, loader.progress, loader.progress.candidate
        written = (await open_to_hosts(self.context, index, self.sender.index), hosts_opaque_id(index))
        order = HostOrder(job.resource.alias, job.companies, progress.live, *written, self.sender.ranges)
        return self.shared.loading(self.pool, order)
