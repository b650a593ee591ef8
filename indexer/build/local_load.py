"""The load of a resource by this process alone: it reads and parses in a thread, and writes concurrently."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import dropwhile

from indexer.build.build_checkpoint import BuildProgress
from indexer.build.build_job import BuildJob
from indexer.build.chunk_writer import ChunkWriter, LoadedLines
from indexer.documents.line_parser import ChunkReader, LineParser, ParsedChunk
from indexer.settings import IndexerSettings
from indexer.source.lines import LineStream

# Chunks beyond those in flight: one is being read, one waits for a slot.
_CHUNKS_AHEAD = 2


@contextmanager
def remaining_lines(job: BuildJob, progress: BuildProgress) -> Iterator[LineStream]:
    """Open the lines of a build's resource after the last acknowledged one."""
    with job.source.open(job.resource) as reading:
        job.report.bytes_total, progress.stray = reading.total, reading.stray
        yield replace(reading, lines=dropwhile(lambda line: line.position <= progress.line, reading.lines))


@dataclass
class LocalLoad:
    """Reads chunks and writes them."""

    chunks: ChunkReader
    writer: ChunkWriter
    pieces_ahead: int

    @classmethod
    @contextmanager
    def opened(cls, job: BuildJob, progress: BuildProgress, writer: ChunkWriter) -> Iterator[LocalLoad]:
        """Open what remains of the resource."""
        settings = writer.context.settings
        with remaining_lines(job, progress) as remaining:
            chunks = ChunkReader(LineParser(job.resource, job.companies, settings), remaining, settings)
            yield cls(chunks, writer, chunks_ahead(settings))

    def read(self) -> ParsedChunk | None:
        """Return the next chunk, None at the end. Runs in a thread."""
        return self.chunks.read()

    async def load(self, lines: ParsedChunk) -> LoadedLines:
        """Write the documents of a chunk."""
        return await self.writer.write(lines)


def chunks_ahead(settings: IndexerSettings) -> int:
    """Return how many chunks a process may have in memory."""
    return settings.bulks_in_flight + _CHUNKS_AHEAD
