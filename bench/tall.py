"""How cost grows with the number of records: `python -m bench.tall --records 1000000 10000000 --shards 8`.

On a node of its own; each size is an installation with a service process. Listings are small, their identifiers in no
order, and six in ten belong to one company. Prints what loading took, then, measured in turn on all sizes, a page of
200 at three depths and a walk of the whole large company, whose records are counted; last the most memory that service
and indexer took. With `--data`, what is loaded remains there, and is measured again without another load.
"""

import argparse
import asyncio
import hashlib
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from bench.accounting import peak_bytes
from bench.client import Connection, Pool
from bench.commands import MeasuredCommand
from bench.company_rebuild import small_listing
from bench.programs import Program, service
from bench.walks import ServiceWay
from cluster.connection import ConnectionSettings, connect
from embedded import EmbeddedCluster, NodeOptions
from mappings import LISTING
from service.keys.store import KeyGrant, KeyStore
from service.settings import ServiceSettings

_LARGEST, _OTHERS = "m-largest", ("a-small", "k-small", "q-small", "z-small")
_DEPTHS = (0.0, 0.5, 0.97)
_PAGE, _WALK_PAGE, _SLICES = 200, 1_000, 50
_QUIET = {"BROKERAGE_ACCESS_LOG": "errors"}
_LEFT_OUT = ("PublicRemarks", "ListingURL", "ListOfficeAOR")


def _identifier(number: int) -> str:
    return hashlib.blake2b(number.to_bytes(8, "big"), digest_size=8).hexdigest()


def _lines(folder: Path, records: int) -> Iterator[bytes]:
    envelope = small_listing(folder)
    kept = {name: value for name, value in envelope["record"].items() if value is not None and name not in _LEFT_OUT}
    envelope["record"] = kept
    for number in range(records):
        envelope["platform_company_id"] = _LARGEST if number % 10 < 6 else _OTHERS[number % 10 - 6]
        identifier = _identifier(number)
        differing = {"PlatformListingId": identifier, "PublicTitle": f"{identifier} Main Street", "ListPrice": number}
        kept |= differing
        yield orjson.dumps(envelope) + b"\n"


def _write_source(folder: Path, records: int) -> int:
    """Write the companies and so many listings; return the bytes of a listing."""
    folder.mkdir(parents=True)
    lines = [orjson.dumps({"updated_at": "2026-01-01T00:00:00Z", "record": _company(name)}) for name in _names()]
    (folder / "companies.ndjson").write_bytes(b"\n".join(lines) + b"\n")
    with (folder / "listings.ndjson").open("wb") as file:
        file.writelines(_lines(folder.parent / "sample", records))
        return file.tell() // records


def _names() -> tuple[str, ...]:
    return (_LARGEST, *_OTHERS)


def _company(name: str) -> dict[str, Any]:
    return {"platform_company_id": name, "name": name, "numeric_id": None, "public_partner_attrs": {"is_nrt": False}}


@dataclass
class Size:
    """An installation of so many records, its service, and what was measured."""

    records: int
    program: Program
    way: ServiceWay
    connection: Connection
    milliseconds: dict[float, list[float]] = field(default_factory=dict)
    cursor: str | None = None
    walked: int = 0
    walk_seconds: float = 0.0
    is_final: bool = False

    async def page(self, depth: float) -> float:
        """Read a page at a depth of the large company; return the milliseconds."""
        after = f"{int(depth * 2**64):016x}" if depth else None
        request = ServiceWay(self.way.server, self.way.path, self.way.key, _PAGE).request(_LARGEST, after)
        started = time.perf_counter()
        await self.connection.fetch(request)
        return (time.perf_counter() - started) * 1e3

    async def walk_slice(self) -> None:
        """Walk one slice of the large company."""
        started = time.perf_counter()
        for _ in range(-(-self.records * 6 // 10 // _WALK_PAGE // _SLICES) + 1):
            if not self.is_final:
                await self._walk_page()
        self.walk_seconds += time.perf_counter() - started

    async def _walk_page(self) -> None:
        answer = await self.connection.fetch(self.way.request(_LARGEST, self.cursor), keep=True)
        self.walked += answer.body.count(b'"PlatformListingId"')
        before, self.cursor = self.cursor, self.way.cursor(answer)
        self.is_final = self.cursor is None
        if before and self.cursor and self.cursor <= before:
            raise SystemExit(f"The walk went back from {before} to {self.cursor}.")


def _load(url: str, folder: Path, records: int, shards: int) -> int:
    """Load the listings by the command line and print what that took; return the bytes of memory at most."""
    size = _write_source(folder / "source", records)
    environment = {"ELASTICSEARCH_URL": url, "BROKERAGE_INDEX_PREFIX": _prefix(records)}
    environment |= {"BROKERAGE_SHARDS": f"listings={shards}", "BROKERAGE_DEAD_LETTER_DIR": str(folder / "dead")}
    arguments = ("index", "reindex", str(folder / "source"), "companies", "listings")
    used = MeasuredCommand(*arguments, environment=environment).wait()
    print(
        f"{records:>11,} listings of {size:,} bytes loaded: {used.seconds:,.0f} s, "
        f"{records / used.seconds:,.0f} a second; indexer {used.processor / records * 1e6:.1f} µs of processor time "
        f"a record, {used.memory / 2**20:.0f} MB",
        flush=True,
    )
    shutil.rmtree(folder)
    return used.memory


def _prefix(records: int) -> str:
    return f"tall-{records}-"


async def _started(stack: AsyncExitStack, url: str, pool: Pool, records: int) -> Size:
    connection = ConnectionSettings(url=(url,), prefix=_prefix(records))
    async with connect(connection, connections=2, timeout=60) as client:
        store = KeyStore(client, connection.keys_index)
        key = (await store.create(KeyGrant("all", all_companies=True, rate=None))).reveal()
    program = await stack.enter_async_context(service(url, connection.prefix, settings=_QUIET))
    await program.ready()
    [open_connection] = await pool.take(program.url, 1)
    return Size(records, program, ServiceWay(program.url, "/v1/listings", key, _WALK_PAGE), open_connection)


async def _is_loaded(url: str, records: int) -> bool:
    connection = ConnectionSettings(url=(url,), prefix=_prefix(records))
    async with connect(connection, connections=1, timeout=60) as client:
        return bool(await client.indices.exists_alias(name=connection.alias(LISTING)))


async def _measure(url: str, given: argparse.Namespace) -> None:
    async with AsyncExitStack() as stack:
        pool = Pool()
        stack.callback(pool.close)
        sizes = [await _started(stack, url, pool, records) for records in given.records]
        await asyncio.sleep(ServiceSettings().stale_seconds)  # the services know their shards
        for depth in _DEPTHS:
            await _compare_pages(sizes, depth, given.rounds)
        while not all(size.is_final for size in sizes):
            for size in sizes:
                await size.walk_slice()
        _print_walks(sizes)


async def _compare_pages(sizes: list[Size], depth: float, rounds: int) -> None:
    taken = [[await size.page(depth) for size in sizes] for _ in range(rounds)]
    medians = ", ".join(f"{median(column):.2f}" for column in zip(*taken, strict=True))
    ratios = ", ".join(f"{median(row[at] / row[0] for row in taken):.2f}" for at in range(1, len(sizes)))
    print(f"page of {_PAGE}, {depth:.0%} deep: {medians} ms; ratio to the smallest {ratios}", flush=True)


def _print_walks(sizes: list[Size]) -> None:
    first = sizes[0].walk_seconds / sizes[0].walked
    for size in sizes:
        expected = size.records // 10 * 6
        if size.walked != expected:
            raise SystemExit(f"The walk returned {size.walked:,} records of {expected:,}.")
        rate, ratio = size.walked / size.walk_seconds, size.walk_seconds / size.walked / first
        print(f"walk of {size.walked:,} records: {rate:,.0f} a second, time of a record {ratio:.2f} of the smallest")
    _print_memory("service", [peak_bytes(size.program.pid) for size in sizes])


def _print_memory(program: str, taken: Sequence[int]) -> None:
    megabytes = ", ".join(f"{each / 2**20:.0f}" for each in taken)
    ratios = ", ".join(f"{each / taken[0]:.2f}" for each in taken[1:])
    print(f"memory of the {program}: {megabytes} MB; ratio to the smallest {ratios}", flush=True)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--data", type=Path, help="folder of the node's data, which remains")
    given = parser.parse_args()
    options = NodeOptions(data=given.data, ephemeral=given.data is None)
    with tempfile.TemporaryDirectory() as name, EmbeddedCluster(options) as cluster:
        loaded = [
            _load(cluster.url, Path(name) / str(records), records, given.shards)
            for records in given.records
            if not asyncio.run(_is_loaded(cluster.url, records))
        ]
        if len(loaded) == len(given.records):
            _print_memory("indexer", loaded)
        asyncio.run(_measure(cluster.url, given))


if __name__ == "__main__":
    main()
