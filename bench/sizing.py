"""What a number of listings takes: index, disk, processors, network and time, worked out from what was measured.

`bench.sizing_page` shows it in `docs/sizing.md`, where every number comes from an input of this module.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from statistics import median, median_high
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
DAY_SECONDS = 86_400


@dataclass(frozen=True)
class Measured:
    """One thing for one listing, or a rate; seconds are of processor time unless it is a rate."""

    index_bytes: float
    source_bytes: float
    answer_bytes: float
    gzip_bytes: float
    service_seconds: float
    engine_seconds: float
    page_service_seconds: float
    page_engine_seconds: float
    updated_factor: float
    gzip_seconds: float
    walked_a_second: float
    built_a_second: float
    rebuilt_a_second: float


@dataclass(frozen=True)
class Chosen:
    """What is assumed and may be chosen otherwise. Bytes are decimal."""

    shard_bytes: float = 40e9  # between the 10 and 50 GB that Elasticsearch advises
    copies: int = 2  # a primary and the one replica that the product asks for
    generations: int = 2  # BROKERAGE_KEPT_GENERATIONS
    busy: float = 0.7  # of processors, so that bursts find room
    filled: float = 0.85  # of disks: the low watermark
    partners: int = 10  # who walk everything once a day
    node_cores: int = 16
    node_disk_bytes: float = 4e12
    least: int = 3  # nodes, and replicas of the service, of which one may be lost


# Listings of `brokerage sample` in one merged shard of Elasticsearch 9.5.3; `docs/sizing.md` has the commands.
SAMPLED = 100_000
SAMPLED_INDEX_BYTES = 188_153_367
SAMPLED_SOURCE_BYTES = 662_868_091
# Rates of the indexer with Elasticsearch on the same two cores: docs/indexing.md.
BUILT_A_SECOND = 6_602
REBUILT_A_SECOND = 5_631


def measured(results: dict[str, Any]) -> Measured:
    """Return what the results of `make bench` say of one listing; raise KeyError where a stage is missing."""
    rows, listings = results["environment"]["page"], results["environment"]["listings"]
    page = results["groups"]["throughput"]["service, page, at any, 8 clients"]
    packed = results["groups"]["throughput"]["service, page, at any, 8 clients, gzip"]
    updated = results["groups"]["after updates"]["service, page, at any, 8 clients"]
    fresh = results["groups"]["before updates"]["service, page, at any, 8 clients"]
    walks = results["walks"]["service"]
    return Measured(
        index_bytes=SAMPLED_INDEX_BYTES / SAMPLED,
        source_bytes=SAMPLED_SOURCE_BYTES / SAMPLED,
        answer_bytes=median(walk["bytes"] for walk in walks) / listings,
        gzip_bytes=packed["bytes"] / rows,
        service_seconds=median(walk["cpu_seconds"]["service"] for walk in walks) / listings,
        engine_seconds=median(walk["cpu_seconds"]["Elasticsearch"] for walk in walks) / listings,
        page_service_seconds=page["cpu_ms"]["service"] / 1000 / rows,
        page_engine_seconds=page["cpu_ms"]["Elasticsearch"] / 1000 / rows,
        updated_factor=updated["cpu_ms"]["Elasticsearch"] / fresh["cpu_ms"]["Elasticsearch"],
        gzip_seconds=(packed["cpu_ms"]["service"] - page["cpu_ms"]["service"]) / 1000 / rows,
        walked_a_second=listings / median_high(sum(walk["seconds"].values()) for walk in walks),
        built_a_second=BUILT_A_SECOND,
        rebuilt_a_second=REBUILT_A_SECOND,
    )


def measured_now() -> Measured:
    """Return what the committed results say."""
    return measured(json.loads((DOCS / "performance/results.json").read_bytes()))


@dataclass(frozen=True)
class Size:
    """What a number of listings takes. Seconds are of the clock; cores are those to have, with room for bursts."""

    listings: int
    of: Measured
    chosen: Chosen = Chosen()

    @property
    def index_bytes(self) -> float:
        """Bytes of one copy of one generation."""
        return self.listings * self.of.index_bytes

    @property
    def shards(self) -> int:
        """Shards, or indices of one shard, that hold it."""
        return math.ceil(self.index_bytes / self.chosen.shard_bytes)

    @property
    def resting_bytes(self) -> float:
        """Bytes on all disks between builds."""
        return self.index_bytes * self.chosen.copies * self.chosen.generations

    @property
    def building_bytes(self) -> float:
        """Bytes on all disks at the height of a build.

        To what rests comes the candidate: twice while it is merged, and in all its copies afterwards.
        """
        return self.resting_bytes + self.index_bytes * max(2, self.chosen.copies)

    @property
    def disk_bytes(self) -> float:
        """Bytes of disk to have."""
        return self.building_bytes / self.chosen.filled

    @property
    def rows_a_second(self) -> float:
        """Listings handed out in the mean of a day."""
        return self.listings * self.chosen.partners / DAY_SECONDS

    @property
    def service_cores(self) -> float:
        """Cores for the service, answers compressed with gzip."""
        return self.rows_a_second * (self.of.service_seconds + self.of.gzip_seconds) / self.chosen.busy

    @property
    def engine_cores(self) -> float:
        """Cores for Elasticsearch right after a rebuild."""
        return self.rows_a_second * self.of.engine_seconds / self.chosen.busy

    @property
    def replicas(self) -> int:
        """Replicas of the service, each of one worker and one core."""
        return max(self.chosen.least, math.ceil(self.service_cores))

    @property
    def nodes(self) -> int:
        """Nodes of Elasticsearch that hold it, by processors once 5 % are updated and by disks."""
        by_cores = math.ceil(self.engine_cores * self.of.updated_factor / self.chosen.node_cores)
        return max(self.chosen.least, by_cores, math.ceil(self.disk_bytes / self.chosen.node_disk_bytes))

    @property
    def cache_bytes(self) -> float:
        """Memory of each node beside the heap that holds its part of what is live."""
        return self.index_bytes * self.chosen.copies / self.nodes
