"""What two versions of the service cost: `python -m bench.paired --before CHECKOUT [--after CHECKOUT]`.

Runs that checkout and another, by default this one, on the same node, whose listings have fractional acres, each with
the packages that it locks if `make install` made an environment in it. Asks both in turn, in blocks, for a page, a
show, a page of changes and one of Property: processor time per request. Then starts both in turn: seconds until ready,
processor time, and memory then and after 200 pages. Ratios are medians of those of two blocks or starts in turn; what
follows ± is their 95 % interval. With `--limit` (`make guard`), names what this machine is too busy to see, and exits
with 1 if one is above it.
"""

import argparse
import asyncio
import math
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import aiohttp

from bench import programs
from bench.accounting import exact_seconds, resident_bytes
from bench.programs import Version, version
from bench.results import Ratio, compared
from bench.stage import new_key
from cluster.connection import ConnectionSettings, connect
from embedded import EmbeddedCluster, NodeOptions
from indexer import IndexerContext, IndexerSettings, RebuildRequest, open_source, reindex
from mappings import LISTING
from sample import write_source

_PREFIX = "paired-"
_SETTINGS = {"BROKERAGE_ACCESS_LOG": "none", "BROKERAGE_SHARED_SECONDS": "0"}
_ACRES = re.compile(rb'("LotSizeAcres": ?\d+)(?=[,}])')
_PAGE, _SHOW, _CHANGES, _PROPERTY = "page of 200", "show", "changes, 200", "Property, 200"
_PAGES = 200  # after which memory is measured again
_AT_ONCE = 4
_service = partial(programs.service, prefix=_PREFIX, settings=_SETTINGS)
_SECONDS = "seconds until ready"  # the clock depends on what else runs, so no limit holds for it


async def _load(url: str, folder: Path) -> tuple[str, dict[str, str]]:
    """Load a sample; return a key and the path of each arm."""
    connection = ConnectionSettings(url=(url,), prefix=_PREFIX)
    async with connect(connection, connections=4, timeout=60) as client:
        settings = IndexerSettings(dead_letter_folder=str(folder / "dead"), merge=False)
        write_source(folder / "all", listings=3000)
        listings = folder / "all" / "listings.ndjson"
        listings.write_bytes(_ACRES.sub(rb"\1.25", listings.read_bytes()))
        with open_source(str(folder / "all")) as source:
            await reindex(IndexerContext(client, connection, settings), source, RebuildRequest(force=True))
        key = await new_key(client, connection)
        found = await client.search(index=connection.alias(LISTING), size=1, source_includes=["id", "company"])
    record = found["hits"]["hits"][0]["_source"]
    one = f"platform_company_id={record['company']}&page_size=200"
    return key, {
        _PAGE: f"/v1/listings?{one}&updated_since=1",
        _SHOW: f"/v1/listings/{record['id']}",
        _CHANGES: f"/v1/changes?{one}&resources=listings",
        _PROPERTY: "/v1/reso/Property?$top=200&$filter=StandardStatus eq 'Active'",
    }


async def block(pid: int, url: str, http: aiohttp.ClientSession, path: str, count: int) -> float:
    """Return the milliseconds of processor time of a process per request of `path` at `url`."""

    async def ask(times: int) -> None:
        for _ in range(times):
            async with http.get(f"{url}{path}") as answer:
                answer.raise_for_status()
                await answer.read()

    started = exact_seconds(pid)
    await asyncio.gather(*(ask(count // _AT_ONCE) for _ in range(_AT_ONCE)))
    return (exact_seconds(pid) - started) * 1e3 / count


async def _start(url: str, ran: Version, http: aiohttp.ClientSession, page: str) -> dict[str, float]:
    """Start a version; return what the start took, and the memory after it and after some pages."""
    began = time.perf_counter()
    async with _service(url, ran=ran) as program:
        await program.ready()
        taken = {_SECONDS: time.perf_counter() - began, "start, processor seconds": exact_seconds(program.pid)}
        taken["memory after the start"] = resident_bytes(program.pid) / 1e6
        await block(program.pid, program.url, http, page, _PAGES)
        return taken | {f"memory after {_PAGES} pages": resident_bytes(program.pid) / 1e6}


async def _measure(url: str, folder: Path, given: argparse.Namespace) -> dict[str, Ratio]:
    key, paths = await _load(url, folder)
    versions = [version(given.before), version(given.after)]
    ratios = dict[str, Ratio]()
    async with aiohttp.ClientSession(headers={"x-api-key": key}) as http:
        older, newer = (_service(url, ran=ran) for ran in versions)
        async with older as before, newer as after:
            await asyncio.gather(before.ready(), after.ready())
            for name, path in paths.items():
                count = given.requests * (10 if name == _SHOW else 1)
                arms = [partial(block, program.pid, program.url, http, path, count) for program in (before, after)]
                # The first round warms up.
                rounds = [(await arms[0](), await arms[1]()) for _ in range(given.rounds + 1)][1:]
                ratios[name] = compared(name, "ms", rounds)
        starts = [[await _start(url, ran, http, paths[_PAGE]) for ran in versions] for _ in range(given.starts)]
    for name in starts[0][0] if starts else ():
        unit = "s" if "seconds" in name else "MB"
        ratios[name] = compared(name, unit, [(old[name], new[name]) for old, new in starts])
    return ratios


def judge(ratios: Mapping[str, Ratio], limit: float) -> None:
    """Print what cannot be told on this machine; exit with 1 if a ratio is above the limit."""
    counted = {name: found for name, found in ratios.items() if name != _SECONDS}
    if unseen := [name for name, found in counted.items() if found.uncertainty > limit - 1]:
        print(f"Too noisy here to see a ratio of {limit:g}: {', '.join(unseen)}.")
    if slower := [name for name, found in counted.items() if found.median > limit]:
        sys.exit(f"Above {limit:g}: {', '.join(slower)}.")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="the folder of a checkout of one version")
    parser.add_argument("--after", type=Path, default=Path(), help="that of the other, by default this one")
    parser.add_argument("--rounds", type=int, default=25, help="blocks of each arm")
    parser.add_argument("--requests", type=int, default=100, help="requests of a block; of shows ten times as many")
    parser.add_argument("--starts", type=int, default=5, help="how often each version is started")
    parser.add_argument("--limit", type=float, default=math.inf, help="the highest ratio that is accepted")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, EmbeddedCluster(NodeOptions(ephemeral=True)) as cluster:
        ratios = asyncio.run(_measure(cluster.url, Path(name), given))
    judge(ratios, given.limit)


if __name__ == "__main__":
    main()
