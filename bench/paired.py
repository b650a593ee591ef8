"""What a page and a show cost in two versions of the service: `python -m bench.paired --before CHECKOUT`.

Runs both on the same node, whose listings have fractional acres, and asks them alternately, in blocks. A checkout with
an environment of its own (`make install`) runs with the packages that it locks. Prints the
processor time per request of each, and the median of the ratios of the blocks that follow each other. With `--limit`,
exits with 1 if a ratio is above it: `make guard` compares a change with its base.
"""

import argparse
import asyncio
import math
import os
import sys
import tempfile
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from statistics import median

import aiohttp

from bench import programs
from bench.parsing import add_fractions
from cluster.connection import ConnectionSettings, connect
from embedded import EmbeddedCluster, NodeOptions
from indexer import IndexerContext, IndexerSettings, open_source, reindex
from mappings import LISTING
from sample import write_source
from service.keys.store import KeyGrant, KeyStore

_PREFIX = "paired-"
_AT_ONCE = 4


async def _load(url: str, folder: Path) -> tuple[str, dict[str, str]]:
    """Load a sample; return a key and the path of each arm."""
    connection = ConnectionSettings(url=(url,), prefix=_PREFIX)
    async with connect(connection, connections=4, timeout=60) as client:
        settings = IndexerSettings(dead_letter_folder=str(folder / "dead"), merge=False)
        write_source(folder / "all", listings=3000)
        add_fractions(folder / "all" / "listings.ndjson")
        with open_source(str(folder / "all")) as source:
            await reindex(IndexerContext(client, connection, settings), source, force=True)
        grant = KeyGrant("paired", all_companies=True, rate=None)
        key = (await KeyStore(client, connection.keys_index).create(grant)).reveal()
        found = await client.search(index=connection.alias(LISTING), size=1, source_includes=["id", "company"])
    record = found["hits"]["hits"][0]["_source"]
    page = f"/v1/listings?platform_company_id={record['company']}&updated_since=1&page_size=200"
    return key, {"page of 200": page, "show": f"/v1/listings/{record['id']}"}


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    # Of each thread, in nanoseconds: `stat` counts in hundredths of a second.
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text(encoding="utf-8").split()[0]) for thread in threads) / 1e9


async def block(pid: int, url: str, http: aiohttp.ClientSession, path: str, count: int) -> float:
    """Return the milliseconds of processor time of a process per request of `path` at `url`."""

    async def ask(times: int) -> None:
        for _ in range(times):
            async with http.get(f"{url}{path}") as answer:
                answer.raise_for_status()
                await answer.read()

    started = processor_seconds(pid)
    await asyncio.gather(*(ask(count // _AT_ONCE) for _ in range(_AT_ONCE)))
    return (processor_seconds(pid) - started) * 1e3 / count


async def _measure(url: str, folder: Path, given: argparse.Namespace) -> dict[str, float]:
    key, paths = await _load(url, folder)
    settings = {"BROKERAGE_ACCESS_LOG": "none", "BROKERAGE_SHARED_SECONDS": "0"}
    older, newer = (_service(url, settings, checkout) for checkout in (Path(given.before), Path.cwd()))
    ratios = dict[str, float]()
    async with older as before, newer as after, aiohttp.ClientSession(headers={"x-api-key": key}) as http:
        await asyncio.gather(before.ready(), after.ready())
        for name, path in paths.items():
            count = given.requests * (10 if name == "show" else 1)
            arms = [partial(block, program.pid, program.url, http, path, count) for program in (before, after)]
            taken = [tuple([await arm() for arm in arms]) for _ in range(given.rounds + 1)][1:]
            ratios[name] = median(new / old for old, new in taken)
            old, new = (median(column) for column in zip(*taken, strict=True))
            print(f"{name:12} before {old:6.3f} ms, after {new:6.3f} ms, ratio {ratios[name]:.3f}")
    return ratios


def _service(url: str, settings: dict[str, str], checkout: Path) -> AbstractAsyncContextManager[programs.Program]:
    """Run the service of a checkout, with its own packages if `make install` made their environment."""
    own = checkout / ".venv" / "bin" / "brokerage"
    command = own.resolve() if own.exists() else programs.COMMAND
    return programs.service(url, _PREFIX, settings=settings | {"PYTHONPATH": _search_path(checkout)}, command=command)


def _search_path(checkout: Path) -> str:
    return os.pathsep.join(map(str, (checkout.resolve(), checkout.resolve() / "consumer")))


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", required=True, help="the folder of a checkout of the other version")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--limit", type=float, default=math.inf, help="the highest ratio that is accepted")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, EmbeddedCluster(NodeOptions(ephemeral=True)) as cluster:
        ratios = asyncio.run(_measure(cluster.url, Path(name), given))
    if slower := [name for name, ratio in ratios.items() if ratio > given.limit]:
        sys.exit(f"Above {given.limit}: {', '.join(slower)}.")


if __name__ == "__main__":
    main()
