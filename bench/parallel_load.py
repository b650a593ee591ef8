"""How much faster several processes load: `python -m bench.parallel_load [--listings N] [--rounds N] [--processes N]`.

Each round loads the same listings with one process and with several, in turn: into a server that only acknowledges, so
that nothing but the loaders is measured, and with `--node` by `brokerage index reindex` over live listings of a node of
its own, from the first line to the last acknowledgement; an update of all listings follows. Prints medians and ratios,
and for the server the processor time of the process that divides the source and of those that load.

One process takes more than one core, as it reads ahead in a thread. So it is also confined to one: several processes on
as many cores show how the rate grows with both.
"""

import argparse
import asyncio
import datetime as dt
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import orjson

from bench.accounting import peak_bytes, tree
from bench.canned_engine import canned_engine
from bench.commands import MeasuredCommand
from bench.load import reading_rate
from cluster.connection import ConnectionSettings, connect
from embedded import EmbeddedCluster, NodeOptions
from indexer import FolderSource, IndexerContext, IndexerSettings, ResourceReport
from indexer.bulk import AdaptiveLimit, BulkOptions, BulkSender
from indexer.documents.companies import companies_from_source
from indexer.generations.checkpoint import BuildCheckpoint, BuildJob, BuildProgress
from indexer.generations.gates import DocumentSample
from indexer.load.loader import CandidateLoader, load_lines
from indexer.load.processes import LoaderPool
from indexer.reporting.dead_letters import DeadLetters
from indexer.reporting.report import ignore_progress
from mappings import LISTING
from sample import write_source

_FEW = 300


class Taken(NamedTuple):
    """Records per second of one load, the microseconds of processor time per record, and the megabytes of all."""

    rate: float
    own: float = 0.0
    loaders: float = 0.0
    megabytes: float = 0.0


async def measured(url: str, small: Path, folder: Path, processes: int) -> Taken:
    """Load the listings of a folder into the server, after those of a small one, so that all processes have started."""
    settings = IndexerSettings(dead_letter_folder=str(folder / "dead-letters"))
    connection = ConnectionSettings(url=(url,))
    async with connect(connection, connections=8, timeout=60) as client, AsyncExitStack() as stack:
        context = IndexerContext(client, connection, settings)
        pool = await stack.enter_async_context(LoaderPool(context, processes))
        await _load(context, small, pool)
        before, started = _seconds(), time.perf_counter()
        records = await _load(context, folder, pool)
        taken, used = time.perf_counter() - started, _seconds()
        own, loaders = ((late - early) * 1e6 / records for late, early in zip(used, before, strict=True))
        return Taken(records / taken, own, loaders, peak_bytes(os.getpid()) / 2**20)


async def _load(context: IndexerContext, folder: Path, pool: LoaderPool) -> int:
    settings, source, report = context.settings, FolderSource(folder), ResourceReport(LISTING.alias)
    options = BulkOptions(require_alias=True, opaque_id="bench")
    sender = BulkSender(context.client, LISTING.alias, AdaptiveLimit(settings), settings, options)
    with closing(DeadLetters(settings.dead_letter_folder, LISTING.alias)) as letters:
        known, limit = companies_from_source(source), settings.dead_letter_limit
        job = BuildJob(LISTING, source, known, report, letters, limit, is_forced=False, on_progress=ignore_progress)
        progress = BuildProgress("candidate", None, "", "", taken_at=0, dead_letters="", follows=-1)
        loader = CandidateLoader(job, BuildCheckpoint(context, LISTING.alias), progress)
        await load_lines(context, loader, sender, DocumentSample(), pool)
    return report.read


def _seconds() -> tuple[float, float]:
    """Return the processor seconds of this process and of its loaders."""
    processes = tree(os.getpid())
    own = sum(each.seconds for each in processes if each.pid == os.getpid())
    return own, sum(each.seconds for each in processes) - own


def _into_server(url: str, small: Path, folder: Path, processes: int, cores: int) -> Taken:
    """Load in a process of its own that may use so many cores."""
    into = (url, str(small), str(folder), str(processes), str(cores))
    command = [sys.executable, "-m", "bench.parallel_load", "--into", *into]
    return Taken(*orjson.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))  # noqa: S603


def _server_loads(url: str, small: Path, folder: Path, processes: int) -> dict[str, Callable[[], Taken]]:
    processes_and_cores = {
        "--processes 1": (1, processes),
        "--processes 1 on one core": (1, 1),
        f"--processes {processes}": (processes, processes),
    }
    into = partial(_into_server, url, small, folder)
    return {f"canned engine, {name}": partial(into, *way) for name, way in processes_and_cores.items()}


def _into_node(url: str, folder: Path, processes: int) -> Taken:
    return Taken(reading_rate(url, folder, processes))


def _compare(loads: dict[str, Callable[[], Taken]], rounds: int) -> None:
    """Load in each way, in turn, and print the medians, and the ratios of the last way to each of the others."""
    taken = [[load() for load in loads.values()] for _ in range(rounds)]
    *_, last = loads
    for name, column in zip(loads, zip(*taken, strict=True), strict=True):
        all_taken = Taken(*(median(values) for values in zip(*column, strict=True)))
        print(f"{name}: {all_taken.rate:,.0f} a second{_spent(all_taken)}")
        if name != last:
            ratio = median(each[-1].rate / own.rate for each, own in zip(taken, column, strict=True))
            print(f"  {last}: {ratio:.2f} times as many", flush=True)


def _spent(taken: Taken) -> str:
    if not taken.own:
        return ""
    return f"; a record {taken.own:.1f} µs of the build, {taken.loaders:.1f} µs of loaders; {taken.megabytes:.0f} MB"


def _update_all(url: str, folder: Path) -> None:
    """Update every listing by the command, and print its rate."""
    path, moment = folder / "changes.ndjson", dt.datetime.now(dt.UTC).isoformat()
    with (folder / "listings.ndjson").open("rb") as source, path.open("wb") as file:
        for line in source:
            envelope = orjson.loads(line)
            envelope["updated_at"], envelope["record"]["ListPrice"] = moment, 1_000
            file.write(orjson.dumps(envelope) + b"\n")
    arguments = ("index", "update", str(path), "--resource", "listings")
    used = MeasuredCommand(*arguments, environment={"ELASTICSEARCH_URL": url}).wait()
    with path.open("rb") as file:
        records = sum(1 for _ in file)
    print(f"update of all {records:,} listings: {records / used.seconds:,.0f} a second")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listings", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--node", action="store_true", help="load into an Elasticsearch node, too")
    parser.add_argument("--into", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.into:
        url, small, large, processes, cores = given.into
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cores)])
        print(orjson.dumps([*asyncio.run(measured(url, Path(small), Path(large), int(processes)))]).decode())
        return
    with tempfile.TemporaryDirectory() as name:
        small, folder = Path(name) / "small", Path(name) / "large"
        write_source(small, _FEW)
        write_source(folder, given.listings)
        with canned_engine() as url:
            _compare(_server_loads(url, small, folder, given.processes), given.rounds)
        if given.node:
            with EmbeddedCluster(NodeOptions(ephemeral=True, heap_mb=2048)) as cluster:
                reading_rate(cluster.url, folder, 1)  # every measured load is a rebuild
                into, counts = partial(_into_node, cluster.url, folder), (1, given.processes)
                _compare({f"rebuild, --processes {count}": partial(into, count) for count in counts}, given.rounds)
                _update_all(cluster.url, folder)


if __name__ == "__main__":
    main()
