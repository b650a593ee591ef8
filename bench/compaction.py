"""What a page costs after updates and after a compaction: `python -m bench.compaction`, on a node of its own.

Three installations have the same listings. In two of them a share is updated in many published runs; then one is
compacted alone, and the other while a client reads it. Prints the node's processor time for a page of 200 in each,
which are measured in turn, the processor seconds of a compaction for a million records, and the client's medians.
"""

import argparse
import asyncio
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from elasticsearch import AsyncElasticsearch

import indexer.maintenance.compaction as cluster_load
from bench.company_rebuild import Installation, small_listing
from bench.paired import processor_seconds
from cluster.connection import ConnectionSettings, connect
from embedded import EmbeddedCluster, NodeOptions
from indexer import IndexerContext, IndexerSettings, compact, open_source, update
from mappings import LISTING
from service.scope import Scope
from service.search.query import Selection, walk_body

_COMPANY, _PAGE, _DEPTHS, _REPEATED = "own", 200, (0.13, 0.5, 0.94), 10
# Elasticsearch gives up deleted documents every 30 s: the figures leave out the wait for that.
_SETTLED_SECONDS = 40.0
_LEFT_OUT = ("Images", "OpenHouses")
_WARM_UP = 4  # rounds
_QUIET_SECONDS = 5.0


@dataclass(frozen=True)
class Pages:
    """Pages of an installation, and what they cost the node."""

    client: AsyncElasticsearch
    alias: str
    node: int  # process id
    cursors: list[str]

    async def cost(self) -> float:
        """Return the milliseconds of the node's processor time for a page, over several depths."""
        started = processor_seconds(self.node)
        for cursor in self.cursors * _REPEATED:
            await self._read(cursor)
        return (processor_seconds(self.node) - started) * 1e3 / len(self.cursors * _REPEATED)

    async def read_during(self, work: asyncio.Task[Any]) -> float:
        """Read pages until `work` is done; return the median of the milliseconds that they took."""
        taken = list[float]()
        while not work.done():
            started = time.perf_counter()
            await self._read(self.cursors[len(taken) % len(self.cursors)])
            taken.append((time.perf_counter() - started) * 1e3)
        return median(taken)

    async def _read(self, cursor: str) -> None:
        body: Any = walk_body(Selection(LISTING, Scope(frozenset({_COMPANY}))), _PAGE, cursor)
        await self.client.search(index=self.alias, **body)


def _cursors(records: int) -> list[str]:
    identifiers = sorted(f"{_COMPANY}-{number}" for number in range(records))
    return [identifiers[int(records * depth)] for depth in _DEPTHS]


async def _update(place: Installation, given: argparse.Namespace) -> None:
    """Change a share of the listings, in as many runs as given, each of which publishes."""
    chosen = random.Random(1).sample(range(given.records), int(given.records * given.share))  # noqa: S311 - no secret
    for state in range(1, given.runs + 1):
        folder = place.folder.parent / f"{place.folder.name}-{state}"
        folder.mkdir()
        lines = [place.line((_COMPANY,), number, state) for number in chosen[state - 1 :: given.runs]]
        (folder / "listings.ndjson").write_bytes(b"".join(lines))
        with open_source(str(folder)) as source:
            if (await update(place.engine, source)).exit_code:
                raise SystemExit("An update failed.")


async def _compare(pages: dict[str, Pages], rounds: int, when: str) -> None:
    for _ in range(_WARM_UP):
        for each in pages.values():
            await each.cost()
    rows = [{name: await each.cost() for name, each in pages.items()} for _ in range(rounds)]
    for name in list(pages)[1:]:
        fresh, other = (median(row[arm] for row in rows) for arm in ("fresh", name))
        ratio = median(row[name] / row["fresh"] for row in rows)
        print(f"page of {_PAGE} {when}, {name:9} {other:.2f} ms, fresh {fresh:.2f} ms, ratio {ratio:.2f}", flush=True)


async def _compact_alone(place: Installation, node: int, records: int) -> None:
    started = processor_seconds(node)
    (done,) = await compact(place.engine, [LISTING])
    seconds = processor_seconds(node) - started
    print(f"compaction {done.outcome}: {seconds * 1e6 / records:.1f} processor seconds per million records")


async def _compact_while_read(place: Installation, pages: Pages) -> None:
    before = await pages.read_during(asyncio.create_task(asyncio.sleep(_QUIET_SECONDS)))
    during = await pages.read_during(asyncio.create_task(compact(place.engine, [LISTING])))
    print(f"readers' median {during:.2f} ms during a compaction, {before:.2f} ms before, ratio {during / before:.2f}")


async def _measure(url: str, node: int, folder: Path, given: argparse.Namespace) -> None:
    cluster_load.MAX_LOAD = 100  # that of this machine is the benchmark's own
    settings = IndexerSettings(dead_letter_folder=str(folder / "dead"), shards=(f"listings={given.shards}",))
    template, places, pages = small_listing(folder / "sample"), {}, {}
    template["record"] = {name: value for name, value in template["record"].items() if name not in _LEFT_OUT}
    async with connect(ConnectionSettings(url=(url,)), connections=8, timeout=600) as client:
        for name in ("fresh", "compacted", "read"):
            engine = IndexerContext(client, ConnectionSettings(url=(url,), prefix=f"{name}-"), settings)
            places[name] = Installation(engine, folder / name, template)
            await places[name].load((_COMPANY,), given.records)
            pages[name] = Pages(client, engine.connection.alias(LISTING), node, _cursors(given.records))
        for name in ("compacted", "read"):
            await _update(places[name], given)
        await _compare(pages, given.rounds, "after updates")
        await asyncio.sleep(_SETTLED_SECONDS)
        await _compact_alone(places["compacted"], node, given.records)
        await _compact_while_read(places["read"], pages["read"])
        await _compare(pages, given.rounds, "after compaction")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--share", type=float, default=0.05, help="how many of them are updated")
    parser.add_argument("--runs", type=int, default=50, help="in how many runs, below 60")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, EmbeddedCluster(NodeOptions(ephemeral=True)) as cluster:
        asyncio.run(_measure(cluster.url, cluster.processes[0].pid, Path(name), given))


if __name__ == "__main__":
    main()
