"""What an update of one line takes: `python -m bench.single_lines [--updates N]`, on a node of its own.

Teams and offices alternate, each in a run of its own, so that every update takes a lock, publishes a mark and writes
the event ledger. Prints the milliseconds of an update: median and first quartile.
"""

import argparse
import asyncio
import datetime as dt
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import orjson

from cluster.connection import ConnectionSettings, connect
from embedded import EmbeddedCluster, NodeOptions
from indexer import IndexerContext, IndexerSettings, open_source, reindex, update
from mappings import OFFICE, TEAM, Resource
from sample import write_source

_NEWER = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)


@dataclass
class Turns:
    """Envelopes of two resources, sent alternately with a change each time."""

    engine: IndexerContext
    folder: Path
    envelopes: list[tuple[Resource, dict[str, Any]]]

    async def one(self, number: int) -> float:
        """Apply one line and return the milliseconds that it took."""
        resource, envelope = self.envelopes[number % len(self.envelopes)]
        envelope["updated_at"] = (_NEWER + dt.timedelta(seconds=number)).isoformat()
        envelope["record"]["name"] = f"after {number}"
        path = self.folder / f"{resource.alias}.ndjson"
        path.write_bytes(orjson.dumps(envelope) + b"\n")
        with open_source(str(self.folder)) as source:
            started = time.perf_counter()
            await update(self.engine, source)
            taken = time.perf_counter() - started
        path.unlink()
        return taken * 1e3


async def _measured(url: str, folder: Path, updates: int) -> list[float]:
    """Load a small sample and return the milliseconds of each update."""
    connection = ConnectionSettings(url=(url,))
    async with connect(connection, connections=4, timeout=60) as client:
        engine = IndexerContext(
            client, connection, IndexerSettings(dead_letter_folder=str(folder / "dead"), merge=False)
        )
        write_source(folder / "all", listings=50)
        with open_source(str(folder / "all")) as source:
            await reindex(engine, source, force=True)
        (folder / "changes").mkdir()
        turns = Turns(engine, folder / "changes", [(each, _first(folder / "all", each)) for each in (TEAM, OFFICE)])
        return [await turns.one(number) for number in range(updates)]


def _first(folder: Path, resource: Resource) -> dict[str, Any]:
    """Return the first envelope of a resource."""
    with (folder / f"{resource.alias}.ndjson").open("rb") as file:
        found: dict[str, Any] = orjson.loads(file.readline())
    return found


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, EmbeddedCluster(NodeOptions(ephemeral=True)) as cluster:
        taken = asyncio.run(_measured(cluster.url, Path(name), given.updates))
    print(f"{len(taken)} updates: median {median(taken):.1f} ms, first quarter {quantiles(taken)[0]:.1f} ms")


if __name__ == "__main__":
    main()
