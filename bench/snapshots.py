"""Snapshots compared with walks, interleaved: rows per second, and growth of the service's memory."""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from statistics import median

from bench.accounting import resident_bytes
from bench.client import Connection, Pool, get
from bench.walks import Company, ServiceWay, walk

_MEGABYTE = 1e6
_LARGEST_PAGE = 1000
_LOOK_SECONDS = 0.05


@dataclass
class Paces:
    """Interleaved snapshots and walks of a company, by a client that only counts bytes."""

    given: argparse.Namespace
    company: Company
    connection: Connection

    async def snapshot(self) -> int:
        """Read a snapshot and return its bytes."""
        target = f"/v1/snapshot/listings?platform_company_id={self.company.key}"
        headers = {"x-api-key": self.given.key, "Accept-Encoding": self.given.encoding}
        return (await self.connection.fetch(get(self.given.service, target, headers))).length

    async def walk(self) -> int:
        """Walk with the largest page and return the bytes."""
        size, encoding = _LARGEST_PAGE, self.given.encoding
        way = ServiceWay(self.given.service, "/v1/listings", self.given.key, size, encoding=encoding)
        return (await walk(self.connection, way, self.company))[1]


async def paced(given: argparse.Namespace, company: Company) -> None:
    """Print the rates of both, their ratio, and how far the memory of the process of the service grew."""
    pool = Pool()
    paces = Paces(given, company, (await pool.take(given.service, 1))[0])
    arms = {"snapshot": paces.snapshot, "walk": paces.walk}
    rates, grown = {name: list[float]() for name in arms}, {name: list[int]() for name in arms}
    for _ in range(given.rounds):
        for name, read in arms.items():
            seconds, growth, length = await _watched(given.pid, read)
            rates[name].append(company.listings / seconds)
            grown[name].append(growth)
            print(f"{name:9} {length:16,} bytes {rates[name][-1]:10,.0f} rows per second", flush=True)
    pool.close()
    ratio = median(rates["snapshot"]) / median(rates["walk"])
    growths = ", ".join(f"{max(sizes) / _MEGABYTE:.1f} MB by a {name}" for name, sizes in grown.items())
    print(f"a snapshot of {company.listings:,} compared with a walk: {ratio:.2f}; memory grew by at most {growths}")


async def _watched(pid: int, read: Callable[[], Awaitable[int]]) -> tuple[float, int, int]:
    """Return seconds, by how many bytes the service's memory grew meanwhile, and what was read."""
    began, before = time.perf_counter(), resident_bytes(pid)
    reading, peak = asyncio.ensure_future(read()), before
    while not reading.done():
        await asyncio.wait([reading], timeout=_LOOK_SECONDS)
        peak = max(peak, resident_bytes(pid))
    return time.perf_counter() - began, peak - before, await reading
