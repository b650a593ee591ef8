"""The shards of a build: how many, and where they are cut so that they weigh the same, by a sample of the source."""

import heapq
import math
import random
from dataclasses import dataclass, field

from indexer.documents.companies import Companies
from indexer.documents.line_parser import LineParser, ParsedChunk
from indexer.settings import AUTO, IndexerSettings, ShardRequest
from indexer.source.lines import Source, SourceLine
from mappings import Resource
from mappings.shards import INDEX_SHARE, MAX_SHARDS, ShardRanges, cut_evenly
from mappings.stored_document import feed_key

_GIGABYTE = 10**9
# With so many lines, one shard of 24 differs from another by 7 % (standard deviation).
_SAMPLE_SIZE = 5_000


@dataclass
class WeighedSample:
    """A random sample of lines, chosen in proportion to their bytes; the same for every pass over a source."""

    bytes: int = 0
    _chosen: list[tuple[float, int, SourceLine]] = field(default_factory=list)
    _random: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311 - not used for security

    def offer(self, line: SourceLine) -> None:
        """Keep a line if it is among the chosen (the algorithm A-Res of Efraimidis and Spirakis)."""
        size = len(line.data) or 1
        self.bytes += size
        ranked = (math.log(1.0 - self._random.random()) / size, self.bytes, line)
        if len(self._chosen) < _SAMPLE_SIZE:
            heapq.heappush(self._chosen, ranked)
        elif ranked > self._chosen[0]:
            heapq.heapreplace(self._chosen, ranked)

    @property
    def lines(self) -> list[SourceLine]:
        """The chosen lines, unordered."""
        return [line for _, _, line in self._chosen]


def choose_ranges(source: Source, resource: Resource, companies: Companies, settings: IndexerSettings) -> ShardRanges:
    """Return the ranges of a build of more than one shard, from one more pass over its source. May run in a thread.

    Raises SourceError.
    """
    request = ShardRequest(settings.shards, settings.shard_gigabytes)
    requested = request.shards(resource.alias)
    sample = WeighedSample()
    with source.open(resource) as reading:
        for line in reading.accepted_lines:
            sample.offer(line)
    shards = fitting_shards(sample.bytes, request.gigabytes) if requested == AUTO else requested
    return cut_evenly(_feed_keys(sample.lines, LineParser(resource, companies, settings)), shards)


def fitting_shards(source_bytes: int, shard_gigabytes: float) -> int:
    """Return how many shards of at most so many gigabytes a source of listings fills."""
    return min(MAX_SHARDS, max(1, math.ceil(source_bytes * INDEX_SHARE / (shard_gigabytes * _GIGABYTE))))


def _feed_keys(lines: list[SourceLine], parser: LineParser) -> list[str]:
    chunk = ParsedChunk()
    for line in lines:
        parser.parse_into(line, chunk)
    return [feed_key(document.company, document.id) for document in chunk.drafts]
