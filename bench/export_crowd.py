"""Many consumers who copy a company at once, next to a walker of small pages.

Consumers are a process of the lowest priority, because theirs is the processor of other machines. The walker's delays
are those of the service and of Elasticsearch, not of the loop that counts the bytes of all consumers.
"""

import argparse
import asyncio
import os
import sys
import time

import orjson
import uvloop

from bench.accounting import resident_bytes
from bench.client import Connection, Pool, get
from bench.export_downloads import Downloads, export_parser
from bench.spread import quantile

_PAGE = 200
_LOWEST_PRIORITY = 19


async def measure_crowd(given: argparse.Namespace, pool: Pool) -> None:
    """Print whether all consumers finish, what memory the service takes meanwhile, and how long a page takes."""
    (walker,) = await pool.take(given.service, 1)
    peace = await _pages(given, walker, time.perf_counter() + given.peace_seconds)
    at_rest = resident_bytes(given.pid)
    consumers = await _start(given)
    reading = asyncio.create_task(consumers.communicate())
    crowded, most = list[float](), at_rest
    while not reading.done():
        crowded += await _pages(given, walker, 0.0)
        most = max(most, resident_bytes(given.pid))
        await asyncio.sleep(0.01)
    if consumers.returncode:
        raise SystemExit("the consumers failed")
    lengths = orjson.loads((await reading)[0])
    print(f"{len(lengths)} consumers at once: {len({*lengths})} size(s) of {lengths[0]:,} bytes, ", end="")
    print(f"memory {most / at_rest:.2f} of that at rest, ", end="")
    print(f"p95 of a page {quantile(crowded, 0.95) / quantile(peace, 0.95):.2f} times that in peace")


async def _start(given: argparse.Namespace) -> asyncio.subprocess.Process:
    where = ("--service", given.service, "--key", given.key, "--company", given.company)
    command = (sys.executable, "-m", __name__, *where, "--consumers", str(given.consumers))
    return await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)


async def _pages(given: argparse.Namespace, connection: Connection, until: float) -> list[float]:
    """Return the milliseconds of pages, at least one, until a moment."""
    target = f"/v1/listings?platform_company_id={given.company}&market_status=all&updated_since=1&page_size={_PAGE}"
    request, taken = get(given.service, target, {"x-api-key": given.key}), list[float]()
    while not taken or time.perf_counter() < until:
        began = time.perf_counter()
        await connection.fetch(request)
        taken.append((time.perf_counter() - began) * 1000)
    return taken


async def _consume(given: argparse.Namespace) -> list[int]:
    """Return how many bytes each consumer has received."""
    pool, downloads = Pool(), Downloads(given)
    connections = await pool.take(given.service, given.consumers)
    await downloads.load(connections[0])
    lengths = await asyncio.gather(*(downloads.read(connection) for connection in connections))
    pool.close()
    return lengths


def main() -> None:
    """Be the consumers; print their bytes as a list of JSON."""
    parser = export_parser(str(__doc__))
    parser.add_argument("--consumers", type=int, default=64)
    os.nice(_LOWEST_PRIORITY)
    sys.stdout.write(orjson.dumps(uvloop.run(_consume(parser.parse_args()))).decode())


if __name__ == "__main__":
    main()
