"""How fast the indexer loads, compared with ready-made bulk bodies: `python -m bench.load [--listings N] [--rounds N]`.

Each round measures three arms on the same node with the same index settings: the indexer's bulk bodies, prepared in a
file (raw); `brokerage index reindex` into nothing (first build); and the same again over the live index, with every
record looked up (rebuild). The rate is records per second from the first line until the last acknowledgement, without
merging. Prints medians, their ratios to raw, and the indexer's peak memory.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import uvloop
from elasticsearch import AsyncElasticsearch

from bench.commands import MeasuredCommand
from cluster.connection import ConnectionSettings, connect
from embedded import EmbeddedCluster, NodeOptions
from indexer import IndexerSettings
from indexer.bulk import BULK_HEADERS
from indexer.documents import companies
from indexer.documents.line_parser import ChunkReader, LineParser
from indexer.source.opener import FolderSource
from mappings import COMPANY, LISTING
from mappings.indices import index_body
from sample import write_source

_TIMEOUT_SECONDS = 600.0
_FILTER = {"filter_path": "errors"}
# The number of documents, and the bytes of the body that follows.
_BODY_HEAD = struct.Struct("<II")


@dataclass
class Arm:
    """One way to load, with the records per second and the memory of each round."""

    name: str
    rates: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)

    def line(self, base: Arm) -> str:
        """Return the median rate, the range, the ratio to another arm, and the largest memory."""
        median, ratio = statistics.median(self.rates), statistics.median(self.rates) / statistics.median(base.rates)
        spread = f"({min(self.rates):,.0f} to {max(self.rates):,.0f})"
        memory = f"  {max(self.megabytes):,.0f} MB" if self.megabytes else ""
        return f"{self.name:12} {median:8,.0f} per second {spread:20} x {ratio:.3f}{memory}"


def _write_bodies(source: Path, target: Path) -> None:
    """Write the bodies of a folder's listings."""
    opened = FolderSource(source)
    with target.open("wb") as file, opened.open(LISTING) as reading:
        chunks = ChunkReader(LineParser(LISTING, companies.companies_from_source(opened)), reading, IndexerSettings())
        while (chunk := chunks.read()) is not None:
            parts: list[bytes] = []
            for document in chunk.drafts:
                head = b'{"index":{"_id":%b,"version":%d,"version_type":"external"}}\n'
                parts += (head % (orjson.dumps(document.id), document.version), document.stamped_source(1, 1), b"\n")
            body = b"".join(parts)
            file.write(_BODY_HEAD.pack(len(chunk.drafts), len(body)) + body)


def _written(target: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number of documents and the bytes of each body."""
    with target.open("rb") as file:
        while head := file.read(_BODY_HEAD.size):
            documents, size = _BODY_HEAD.unpack(head)
            yield documents, file.read(size)


async def _raw(client: AsyncElasticsearch, bodies: Path, arm: Arm) -> None:
    """Send the bodies as they are, as many at once as the indexer does."""
    await client.indices.delete(index="raw-v0001", ignore_unavailable=True)
    body: dict[str, Any] = index_body(LISTING)
    body["settings"] |= {"index.number_of_replicas": 0, "index.refresh_interval": "-1"}
    await client.indices.create(index="raw-v0001", **body)
    waiting = _written(bodies)
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


def _indexed(url: str, source: Path, arm: Arm, *arguments: str) -> None:
    """Run the command and take the times from its own events."""
    environment = {
        "ELASTICSEARCH_URL": url,
        "BROKERAGE_MERGE_AFTER_BUILD": "false",
        "BROKERAGE_KEPT_GENERATIONS": "1",
    }
    given = ("index", "reindex", str(source), *arguments, "--json")
    moments: dict[tuple[str, str], float] = {}
    read = 0
    command = MeasuredCommand(*given, environment=environment, output=subprocess.PIPE)
    for line in command.process.stdout or ():
        event = orjson.loads(line)
        if event["event"] == "progress":
            moments.setdefault((event["resource"], event["stage"]), time.perf_counter())
            read = event["read"]
    used = command.wait()
    seconds = moments[LISTING.alias, "comparing"] - moments[LISTING.alias, "reading"]
    arm.rates.append(read / seconds)
    arm.megabytes.append(used.memory / 2**20)


def reading_rate(url: str, source: Path, processes: int) -> float:
    """Return how many listings a second the command reads with so many processes; of a folder."""
    arm = Arm("reading")
    _indexed(url, source, arm, COMPANY.alias, LISTING.alias, "--processes", str(processes), "--all-companies")
    return arm.rates[0]


async def _measure(url: str, folder: Path, source: Path, rounds: int) -> list[Arm]:
    raw, first, again = Arm("raw"), Arm("first build"), Arm("rebuild")
    bodies = folder / "bodies"
    _write_bodies(source, bodies)
    async with connect(ConnectionSettings(url=(url,)), connections=8, timeout=_TIMEOUT_SECONDS) as client:
        for _ in range(rounds):
            await _raw(client, bodies, raw)
            await asyncio.to_thread(_indexed, url, source, first, COMPANY.alias, LISTING.alias)
            await asyncio.to_thread(_indexed, url, source, again, LISTING.alias)
            await client.indices.delete(index=list(await client.indices.get(index="*")))
    return [raw, first, again]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listings", type=int, default=100_000, help="records to load")
    parser.add_argument("--rounds", type=int, default=3, help="how often each arm is measured")
    parser.add_argument("--heap", type=int, default=2048, help="the node's heap in MB")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "source"
        write_source(source, options.listings)
        with EmbeddedCluster(NodeOptions(ephemeral=True, heap_mb=options.heap)) as cluster:
            arms = uvloop.run(_measure(cluster.url, folder, source, options.rounds))
    for arm in arms:
        print(arm.line(arms[0]))


if __name__ == "__main__":
    main()
