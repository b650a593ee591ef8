"""Published files compared with walks: `python -m bench.exports --service URL --key KEY --company COMPANY --pid PID`.

The service has BROKERAGE_EXPORTS and BROKERAGE_KEY_CONCURRENCY=0, `brokerage index publish` has run, and the key was
created with `--rate unlimited`. Prints, measured in interleaved rounds: records per second and processor time of the
service per record, of files, snapshots and walks with the largest page, all in zstd. Then many consumers at once, with
the growth of the service's memory and a walker of small pages meanwhile, and downloads that are cut at random.
With `--publish FOLDER` also publications to empty folders in it, with and without Parquet, compared with the snapshot;
they connect as the environment says.
"""

import argparse
import asyncio
import os
import random
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from statistics import median

import aiohttp
import orjson
import uvloop

from bench.accounting import processor_seconds
from bench.client import Pool
from bench.export_crowd import measure_crowd
from bench.export_downloads import Downloads, export_parser
from bench.snapshots import Paces
from bench.walks import Company

_MICROSECONDS = 1e6


async def _compare(given: argparse.Namespace, downloads: Downloads, pool: Pool) -> tuple[float, float]:
    """Print what each way takes; return seconds and processor seconds of a snapshot per record."""
    (connection,) = await pool.take(given.service, 1)
    paces = Paces(given, Company(given.company, downloads.records, ""), connection)
    arms: dict[str, Callable[[], Awaitable[int]]] = {
        "files": lambda: downloads.read(connection),
        "snapshot": paces.snapshot,
        "walk": paces.walk,
    }
    rates, costs = {name: list[float]() for name in arms}, {name: list[float]() for name in arms}
    for _ in range(given.rounds):
        for name, read in arms.items():
            began, before = time.perf_counter(), processor_seconds({"": given.pid})[""]
            length = await read()
            rates[name].append(downloads.records / (time.perf_counter() - began))
            costs[name].append((processor_seconds({"": given.pid})[""] - before) / downloads.records * _MICROSECONDS)
            line = (
                f"{length:16,} bytes {rates[name][-1]:12,.0f} records per second {costs[name][-1]:8.3f} µs per record"
            )
            print(f"{name:9} {line}", flush=True)
    for other in ("walk", "snapshot"):
        print(f"files are {median(rates['files']) / median(rates[other]):.1f} times as fast as a {other}", end=", ")
        print(f"and take {median(costs['files']) / median(costs[other]):.3f} of its processor time")
    return 1 / median(rates["snapshot"]), median(costs["snapshot"]) / _MICROSECONDS


async def _cut(given: argparse.Namespace, downloads: Downloads) -> None:
    """Cut downloads at random and continue them: no byte comes twice, and the hash is that of the ETag."""
    chance, received, cuts = random.Random(1), 0, given.cuts  # noqa: S311 - repeatable
    async with aiohttp.ClientSession(given.service, headers={"x-api-key": given.key}) as http:
        for target in downloads.targets:
            digest, tag, present, size = sha256(), "", 0, 1
            while present < size:
                headers = {"Range": f"bytes={present}-", "If-Range": tag} if present else {}
                async with http.get(target, headers=headers) as response:
                    tag, size = response.headers["ETag"], present + int(response.headers["Content-Length"])
                    share = chance.random() / given.cuts * 2 if cuts else 1.0
                    cuts = max(0, cuts - 1)
                    wanted = min(size - present, max(1, int(share * size)))
                    part = await response.content.readexactly(wanted)
                    if present + wanted < size:
                        response.close()
                digest.update(part)
                present, received = present + wanted, received + wanted
            if tag != f'"{digest.hexdigest()}"':
                raise SystemExit(f"{target} is not as its ETag says")
    print(f"cut {given.cuts - cuts} times: {received:,} bytes, each once, every file as its SHA-256 says")


async def _measure(given: argparse.Namespace) -> None:
    pool = Pool()
    downloads = Downloads(given)
    await downloads.load((await pool.take(given.service, 1))[0])
    print(f"{downloads.records:,} listings in {len(downloads.targets)} files")
    snapshot = await _compare(given, downloads, pool)
    for names in ("none", "underscored") if given.publish else ():
        await _published(given, names, snapshot)
    await measure_crowd(given, pool)
    pool.close()
    await _cut(given, downloads)


async def _published(given: argparse.Namespace, names: str, snapshot: tuple[float, float]) -> None:
    """Publish all resources of the company, most of which are listings; print what a record takes."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    program, folder = Path(sys.executable).with_name("brokerage"), Path(given.publish) / names
    process = await asyncio.create_subprocess_exec(
        *(program, "index", "publish", folder, "--json", "--company", given.company),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"BROKERAGE_EXPORTS_PARQUET": names},
    )
    printed, _ = await process.communicate()
    if process.returncode:
        raise SystemExit("the publication failed")
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    summary = orjson.loads(printed.splitlines()[-1])
    records, (pace, cost) = summary["records"], snapshot
    million = 1e6 / records
    print(f"publication, Parquet {names}: per million records {seconds * million:.1f} s, ", end="")
    print(f"{used * million:.1f} s of processor time, {summary['bytes'] * million / 1e6:,.0f} MB; ", end="")
    print(f"{seconds / records / pace:.2f} times the time of a snapshot, ", end="")
    print(f"{used / records / cost:.2f} times its processor time in the service")


def main() -> None:
    """Measure a service that runs."""
    parser = export_parser("Published files compared with walks and snapshots.")
    parser.add_argument("--pid", type=int, required=True, help="the process of the service, for its time and memory")
    parser.add_argument("--publish", default="", help="an empty folder, to measure a publication too")
    parser.add_argument("--encoding", default="zstd")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--consumers", type=int, default=64)
    parser.add_argument("--peace-seconds", type=float, default=5.0)
    parser.add_argument("--cuts", type=int, default=50)
    uvloop.run(_measure(parser.parse_args()))


if __name__ == "__main__":
    main()
