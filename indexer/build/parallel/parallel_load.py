"""The load of a resource by several processes: this one divides the source into ranges."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from indexer.build.build_checkpoint import BuildProgress
from indexer.build.build_job import BuildJob
from indexer.build.chunk_writer import LoadedLines
from indexer.build.local_load import remaining_lines
from indexer.build.parallel.loader_pool import LoaderPool
from indexer.build.parallel.messages import LoadOrder
from indexer.build.swap_gate import DocumentSample
from indexer.settings import IndexerSettings
from indexer.source.files import open_raw
from indexer.source.line_ranges import FileRanges, LineBatches, LineRange, divisible_file, range_size

# Two that each process has, and one that is ready for it.
_RANGES_PER_PROCESS = 3


@dataclass
class ParallelLoad:
    """Reads ranges and lets the processes of a pool load them."""

    lines: FileRanges | LineBatches
    pool: LoaderPool
    order: LoadOrder
    sample: DocumentSample

    @property
    def pieces_ahead(self) -> int:
        """How many ranges may be waiting or in flight."""
        return _RANGES_PER_PROCESS * self.pool.processes

    def read(self) -> LineRange | None:
        """Return the next range, None at the end. Runs in a thread."""
        return self.lines.read()

    async def load(self, lines: LineRange) -> LoadedLines:
        """Let a process load a range."""
        outcome = await self.pool.load(self.order, lines)
        self.sample.merge(outcome.sample)
        return outcome.loaded


@contextmanager
def open_ranges(
    job: BuildJob, progress: BuildProgress, processes: int, settings: IndexerSettings
) -> Iterator[FileRanges | LineBatches]:
    """Open what remains of a build's resource in ranges: parts of its file, or lines that only one process can read."""
    path = divisible_file(job.source, job.resource)
    if path is None:
        with remaining_lines(job, progress) as remaining:
            yield LineBatches(remaining, settings)
        return
    job.report.bytes_total, progress.stray = path.stat().st_size, 0
    with open_raw(path) as raw:
        yield FileRanges(path, raw, range_size(job.report.bytes_total, processes), progress.line)
