"""What an exact `$count` of Property costs compared with a page: `python -m bench.counting [--listings N]`.

On a node of its own, with half as many sold listings. A key of both a listing and a sold listing counts once, so the
key of each sold listing is looked up. Prints medians of interleaved requests and their ratios to a page of 1,000 keys.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from statistics import median

import aiohttp

from bench import programs
from cluster.connection import ConnectionSettings, connect
from embedded import EmbeddedCluster, NodeOptions
from indexer import IndexerContext, IndexerSettings, open_source, reindex
from sample import write_source
from service.keys.store import KeyGrant, KeyStore

_PREFIX = "counting-"
_PAGE = "1,000 keys"
_ARMS = {
    _PAGE: ("Property", {"$select": "ListingKey", "$top": "1000"}),
    "count of Property": ("Property", {"$top": "0", "$count": "true"}),
    "count of EntityEvent": ("EntityEvent", {"$top": "0", "$count": "true"}),
}


async def _measured(url: str, folder: Path, given: argparse.Namespace) -> dict[str, list[float]]:
    """Load a sample and return the milliseconds of each request by arm."""
    connection = ConnectionSettings(url=(url,), prefix=_PREFIX)
    async with connect(connection, connections=4, timeout=60) as client:
        engine = IndexerContext(
            client, connection, IndexerSettings(dead_letter_folder=str(folder / "dead"), merge=False)
        )
        write_source(folder / "all", listings=given.listings)
        with open_source(str(folder / "all")) as source:
            await reindex(engine, source, force=True)
        grant = KeyGrant("counting", all_companies=True, rate=None)
        key = (await KeyStore(client, connection.keys_index).create(grant)).reveal()
    async with programs.service(url, _PREFIX) as service:
        await service.ready()
        async with aiohttp.ClientSession(f"{service.url}/v1/reso/", headers={"x-api-key": key}) as http:
            return await _in_turns(http, given.rounds)


async def _in_turns(http: aiohttp.ClientSession, rounds: int) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {name: [] for name in _ARMS}
    for _ in range(rounds):
        for name, (entity_set, options) in _ARMS.items():
            started = time.perf_counter()
            async with http.get(entity_set, params=options) as answer:
                answer.raise_for_status()
                await answer.read()
            taken[name].append((time.perf_counter() - started) * 1e3)
    return taken


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listings", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, EmbeddedCluster(NodeOptions(ephemeral=True)) as cluster:
        taken = asyncio.run(_measured(cluster.url, Path(name), given))
    page = median(taken[_PAGE])
    for arm, milliseconds in taken.items():
        print(f"{arm:20} {median(milliseconds):8.1f} ms {median(milliseconds) / page:7.2f}")


if __name__ == "__main__":
    main()
