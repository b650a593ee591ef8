"""The load of the lines of a resource, by this process or by those of a pool."""

from indexer.build.chunk_writer import ChunkWriter
from indexer.build.loader import CandidateLoader
from indexer.build.local_load import LocalLoad
from indexer.build.parallel.loader_pool import LoaderPool
from indexer.build.parallel.messages import LoadOrder
from indexer.build.parallel.parallel_load import ParallelLoad, open_ranges
from indexer.build.swap_gate import DocumentSample
from indexer.context import IndexerContext
from indexer.indices.bulk import BulkSender
from indexer.lock.bulk_tasks import wait_for_bulk_tasks


async def load_lines(
    context: IndexerContext, loader: CandidateLoader, sender: BulkSender, sample: DocumentSample, pool: LoaderPool
) -> None:
    """Load the lines that remain, with `sender`, or with the processes of a pool; `sample` is offered the documents."""
    job, progress, settings = loader.job, loader.progress, context.settings
    if pool.processes == 1:
        writer = ChunkWriter(context, job.resource, progress.live, job.companies.coverage, sender, sample)
        with LocalLoad.opened(job, progress, writer) as work:
            await loader.load(work)
        return
    order = LoadOrder(job.resource, job.companies, progress.live, sender.index, sender.opaque_id, sender.ranges)
    pool.exits.clear()
    with open_ranges(job, progress, pool.processes, settings) as lines:
        await loader.load(ParallelLoad(lines, pool, order, sample))
    if exits := pool.exits:
        job.report.warnings.append(
            f"processes that loaded lines ended {len(exits)} times, the last one with {exits[-1]}; others have "
            "loaded these lines"
        )
        # No request of a process that ended may arrive later.
        await wait_for_bulk_tasks(context.client, sender.opaque_id, settings.retry_seconds)
