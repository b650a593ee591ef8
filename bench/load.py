"""How fast the indexer loads, beside Elasticsearch fed with ready-made bulk bodies:
`python -m bench.load [--listings N] [--rounds N] [--source FOLDER]`.

Each round measures three things in turn, on the same node and with the same settings of the index: the bodies that the
indexer would send, kept in a file and sent as they are (raw); `brokerage index reindex` of the source into nothing
(first build); and the same once more over what is live, every record looked up and its stamp carried (rebuild). The
rate is records a second from the first line until the last is acknowledged. Merging is the same for all and left out.
Printed are medians, their ratios to raw, and the indexer's largest memory.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import uvloop

from bench.bodies import write_bodies, written
from cluster.connection import ConnectionSettings, connect
from embedded import EmbeddedCluster, NodeOptions
from indexer import IndexerSettings
from indexer.bulk import BULK_HEADERS
from mappings import COMPANY, LISTING
from mappings.index import index_body
from sample import write_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elasticsearch import AsyncElasticsearch

_TIMEOUT_SECONDS = 600.0
_FILTER = {"filter_path": "errors"}


@dataclass
class Arm:
    """One way to load, with the records a second and the memory of each round."""

    name: str
    rates: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)

    def line(self, base: Arm) -> str:
        """Return the median rate, the range, the ratio to another arm, and the largest memory."""
        median, ratio = statistics.median(self.rates), statistics.median(self.rates) / statistics.median(base.rates)
        spread = f"({min(self.rates):,.0f} to {max(self.rates):,.0f})"
        memory = f"  {max(self.megabytes):,.0f} MB" if self.megabytes else ""
        return f"{self.name:12} {median:8,.0f} a second {spread:20} x {ratio:.3f}{memory}"


async def _raw(client: AsyncElasticsearch, bodies: Path, arm: Arm) -> None:
    """Send the bodies as they are, as many at once as the indexer does."""
    await client.indices.delete(index="raw-v0001", ignore_unavailable=True)
    body: dict[str, Any] = index_body(LISTING)
    body["settings"] |= {"index.number_of_replicas": 0, "index.refresh_interval": "-1"}
    await client.indices.create(index="raw-v0001", **body)
    waiting = written(bodies)
    started = time.perf_counter()
    counts = await asyncio.gather(*(_sending(client, waiting) for _ in range(IndexerSettings().bulks_in_flight)))
    arm.rates.append(sum(counts) / (time.perf_counter() - started))
    await client.indices.delete(index="raw-v0001")


async def _sending(client: AsyncElasticsearch, waiting: Iterator[tuple[int, bytes]]) -> int:
    done = 0
    for documents, body in waiting:
        answer = await client.perform_request(
            "POST", "/raw-v0001/_bulk", params=_FILTER, headers=BULK_HEADERS, body=body
        )
        if answer["errors"]:
            raise SystemExit("Elasticsearch refused a raw document.")
        done += documents
    return done


def _indexed(url: str, source: Path, arm: Arm, resources: list[str]) -> None:
    """Run the command and take the times from its own events."""
    environment = {
        **os.environ,
        "ELASTICSEARCH_URL": url,
        "BROKERAGE_MERGE_AFTER_BUILD": "false",
        "BROKERAGE_KEPT_GENERATIONS": "1",
    }
    command = [str(Path(sys.executable).with_name("brokerage")), "index", "reindex", str(source), *resources, "--json"]
    moments: dict[tuple[str, str], float] = {}
    read = 0
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:  # noqa: S603 - our own command
        for line in process.stdout or ():
            event = orjson.loads(line)
            if event["event"] == "progress":
                moments.setdefault((event["resource"], event["stage"]), time.perf_counter())
                read = event["read"]
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"The indexer ended with {status}.")
    seconds = moments[LISTING.alias, "comparing"] - moments[LISTING.alias, "reading"]
    arm.rates.append(read / seconds)
    arm.megabytes.append(usage.ru_maxrss / 1024)


async def _measure(url: str, folder: Path, source: Path, rounds: int) -> list[Arm]:
    raw, first, again = Arm("raw"), Arm("first build"), Arm("rebuild")
    bodies = folder / "bodies"
    write_bodies(source, bodies)
    async with connect(ConnectionSettings(url=(url,)), connections=8, timeout=_TIMEOUT_SECONDS) as client:
        for _ in range(rounds):
            await _raw(client, bodies, raw)
            await asyncio.to_thread(_indexed, url, source, first, [COMPANY.alias, LISTING.alias])
            await asyncio.to_thread(_indexed, url, source, again, [LISTING.alias])
            await client.indices.delete(index=list(await client.indices.get(index="*")))
    return [raw, first, again]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listings", type=int, default=100_000, help="records to load")
    parser.add_argument("--rounds", type=int, default=3, help="how often each arm is measured")
    parser.add_argument("--source", type=Path, help="a source that is there already")
    parser.add_argument("--heap", type=int, default=2048, help="the node's heap in MB")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = options.source or folder / "source"
        if options.source is None:
            write_source(source, options.listings)
        with EmbeddedCluster(NodeOptions(ephemeral=True, heap_mb=options.heap)) as cluster:
            arms = uvloop.run(_measure(cluster.url, folder, source, options.rounds))
    for arm in arms:
        print(arm.line(arms[0]))


if __name__ == "__main__":
    main()
