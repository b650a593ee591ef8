"""`brokerage size`: what a number of listings takes: disks, nodes, workers, memory and processors.

Everything grows with the number of records, and less than proportionally with their bytes; what one takes is measured
(`Slopes`). docs/sizing.md says how.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import orjson
import rich_click as click

from brokerage.help import epilog
from brokerage.tables import Column, table_lines, terminal_width
from brokerage_feed.terminal import echo
from indexer.generations.candidate import fitting_shards
from indexer.settings import IndexerSettings
from mappings.shards import INDEX_SHARE

_DAY_SECONDS = 86_400
_DEFAULTS = IndexerSettings()
# Each generation has a replica. Some are kept, and a rebuild adds another.
_COPIES, _GENERATIONS = 2, _DEFAULTS.kept_generations + 1
_FULL_DISK = 0.85  # the low watermark of Elasticsearch
_BUSY = 0.7  # of a processor, to leave room for bursts
_MIN_NODES = _MIN_WORKERS = 3  # so that one can be lost
_NODE_CORES, _NODE_BYTES = 16, 4 * 10**12
_HEAP_BYTES = 4 * 10**9
# What a listing takes whatever its bytes, as a share of what one of `Slopes.source_bytes` takes: its search fields in
# the index, and in loads, updates and searches all but the handling of bytes (decision 70).
_FIXED_INDEX, _FIXED_WORK = 0.4, 0.7
_WORKER_BYTES = 384 * 10**6


@dataclass(frozen=True)
class Slopes:
    """What a listing of `source_bytes` takes, as `make bench` measures it; processor times are in microseconds.

    `copy` is a listing in a copy by pages, `change` one in a page of changes, each in the service and in Elasticsearch;
    `packing` is gzip in the service. `update` is an updated listing in the indexer and in Elasticsearch together.
    """

    source_bytes: float = 6_650
    index_share: float = INDEX_SHARE
    packed_share: float = 0.122
    copy_service: float = 10.0
    copy_engine: float = 20.1
    change_service: float = 34.1
    change_engine: float = 62.7
    packing: float = 6.25
    update: float = 1_100
    loaded_a_second: float = 3_960
    rebuilt_a_second: float = 3_750


SLOPES = Slopes()


@dataclass(frozen=True)
class Size:
    """What an installation takes, in bytes, seconds and processors."""

    source_bytes: float
    index_bytes: float
    shards: int
    peak_disk_bytes: float
    load_seconds: float
    rebuild_seconds: float
    update_seconds_a_day: float
    listings_a_second: float
    network_bytes_a_second: float
    nodes: int
    node_cores: int
    node_memory_bytes: float
    node_disk_bytes: float
    workers: int

    @property
    def cores(self) -> int:
        """Of all nodes and workers, and of the indexer."""
        return self.nodes * self.node_cores + self.workers + 1

    @property
    def memory_bytes(self) -> float:
        return self.nodes * self.node_memory_bytes + self.workers * _WORKER_BYTES

    @property
    def disk_bytes(self) -> float:
        return self.nodes * self.node_disk_bytes


def size_of(listings: int, updates_a_day: int, partners: int, record_bytes: float, slopes: Slopes = SLOPES) -> Size:
    """Return what listings of `record_bytes` take whose partners copy everything, and read all updates, once a day."""
    weight = record_bytes / slopes.source_bytes
    work = _FIXED_WORK + (1 - _FIXED_WORK) * weight
    index = listings * slopes.source_bytes * slopes.index_share * (_FIXED_INDEX + (1 - _FIXED_INDEX) * weight)
    copied, changed = (partners * records / _DAY_SECONDS for records in (listings, updates_a_day))
    update_seconds = updates_a_day * slopes.update * work / 1e6
    packed = (copied + changed) * slopes.packing
    service = (copied * slopes.copy_service + changed * slopes.change_service + packed) * weight / 1e6
    reads = (copied * slopes.copy_engine + changed * slopes.change_engine) * work / 1e6
    engine = reads + update_seconds / _DAY_SECONDS
    peak = index * _COPIES * _GENERATIONS
    disk = peak / _FULL_DISK
    nodes = max(_MIN_NODES, math.ceil(disk / _NODE_BYTES), math.ceil(engine / _BUSY / _NODE_CORES))
    return Size(
        source_bytes=listings * record_bytes,
        index_bytes=index,
        shards=fitting_shards(math.ceil(listings * record_bytes), _DEFAULTS.shard_gigabytes),
        peak_disk_bytes=peak,
        load_seconds=listings * work / slopes.loaded_a_second,
        rebuild_seconds=listings * work / slopes.rebuilt_a_second,
        update_seconds_a_day=update_seconds,
        listings_a_second=copied + changed,
        network_bytes_a_second=(copied + changed) * record_bytes * slopes.packed_share,
        nodes=nodes,
        node_cores=max(2, math.ceil(engine / _BUSY / nodes)),
        node_memory_bytes=_HEAP_BYTES + index * _COPIES / nodes,
        node_disk_bytes=disk / nodes,
        workers=max(_MIN_WORKERS, math.ceil(service / _BUSY)),
    )


@click.command(
    epilog=epilog(
        "brokerage size --listings 1000000 --updates-per-day 50000 --partners 10",
        "brokerage size --listings 20000000 --kilobytes 3 --json",
        exits="0 success, 2 usage error",
    )
)
@click.option("--listings", type=click.IntRange(min=1), required=True, help="Listings and sold listings together.")
@click.option("--updates-per-day", type=click.IntRange(min=0), help="Listings that change; by default one in 20.")
@click.option("--partners", type=click.IntRange(min=1), default=10, show_default=True, help="Consumers of everything.")
@click.option(
    "--kilobytes",
    type=click.FloatRange(min=0.1, max=1000),
    default=SLOPES.source_bytes / 1000,
    show_default=True,
    help="Size of a listing in the source.",
)
@click.option("--json", "as_json", is_flag=True, help="Print bytes, seconds and processors as JSON.")
def size(*, listings: int, updates_per_day: int | None, partners: int, kilobytes: float, as_json: bool) -> None:
    """Estimate disks, nodes, workers, memory and processors of an installation.

    Each partner copies everything once a day and reads every update. The estimate follows from what one listing took on
    two processors: load a sample of your own before you rely on it. It needs no cluster.
    """
    updates = listings // 20 if updates_per_day is None else updates_per_day
    found = size_of(listings, updates, partners, kilobytes * 1000)
    if as_json:
        totals = {"cores": found.cores, "memory_bytes": found.memory_bytes, "disk_bytes": found.disk_bytes}
        echo(orjson.dumps({name: round(value) for name, value in (asdict(found) | totals).items()}))
        return
    head = Column(""), Column("Size"), Column("Why", may_fold=True)
    for line in table_lines(head, [*_rows(found, updates)], terminal_width()):
        echo(line)


def _rows(found: Size, updates: int) -> Iterator[tuple[str, str, str]]:
    one = f"{found.node_cores} cores, {_bytes(found.node_memory_bytes)}, {_bytes(found.node_disk_bytes)} of disk each"
    yield "Source", _bytes(found.source_bytes), ""
    yield "Index", _bytes(found.index_bytes), "one copy"
    yield "Shards", f"{found.shards:,}", f"of at most {_DEFAULTS.shard_gigabytes:.0f} GB (BROKERAGE_SHARD_GB)"
    yield "Disk at most", _bytes(found.peak_disk_bytes), "during a rebuild: three generations, each with a replica"
    yield "First load", _time(found.load_seconds), "one process"
    yield "Rebuild", _time(found.rebuild_seconds), "one process"
    yield "Updates", _time(found.update_seconds_a_day), f"of one core a day for {updates:,} listings"
    yield (
        "Reads",
        f"{found.listings_a_second:,.0f} a second",
        f"{_bytes(found.network_bytes_a_second)} a second in gzip",
    )
    yield "Nodes", f"{found.nodes:,}", f"{one}; one can be lost; memory holds the index, disks are at most 85 % full"
    yield "Workers", f"{found.workers:,}", f"one core and {_bytes(_WORKER_BYTES)} each"
    yield (
        "Total",
        f"{found.cores:,} cores",
        f"{_bytes(found.memory_bytes)} of memory, {_bytes(found.disk_bytes)} of disk",
    )


def _bytes(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{_digits(count / size)} {unit}"
    return f"{_digits(count / 1000)} KB"


def _time(seconds: float) -> str:
    for unit, length in (("days", _DAY_SECONDS), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{_digits(seconds / length)} {unit}"
    return f"{_digits(seconds)} seconds"


def _digits(number: float) -> str:
    """Return two digits: more would promise more than an estimate can keep."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"
