"""Thousands of requests that wait for changes, and one update: `python -m bench.herds [--readers N] [--scopes N]`.

On a node of its own, with default settings and one worker. Readers have keys for different companies, and wait with
`/v1/changes?wait=30` when a listing of every company changes. Prints how many were refused, when the last was served,
what one search per scope and what responses without a search took in the same run, and the memory of the worker.
"""

import argparse
import asyncio
import datetime as dt
import resource
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain, combinations, islice
from pathlib import Path
from typing import Any, cast

import aiohttp
import orjson
import uvloop

from bench import programs
from cluster.connection import ConnectionSettings, connect
from embedded import EmbeddedCluster, NodeOptions
from indexer import IndexerContext, IndexerSettings, open_source, reindex, update
from mappings import LISTING
from sample import write_source
from service.keys.store import KeyGrant, KeyStore

_PREFIX = "herds-"
_LISTINGS = 5_000
_KEYS_PER_SCOPE = 4
_SETTLE_SECONDS = 3.0
_LONGEST_SECONDS = 60.0
_MB = 1024


class Reader(asyncio.Protocol):
    """A keep-alive connection that sends one request at a time and notes when its response has arrived."""

    def __init__(self) -> None:
        """Start without a request."""
        self.transport: asyncio.Transport | None = None
        self._received = bytearray()
        self.status = 0
        self.served_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)

    def ask(self, path: str, key: str) -> None:
        """Send a request."""
        self._received.clear()
        self.status, self.served_at = 0, 0.0
        cast("asyncio.Transport", self.transport).write(
            f"GET {path} HTTP/1.1\r\nHost: x\r\nx-api-key: {key}\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        """Note the end of a response."""
        self._received += data
        head, end, body = bytes(self._received).partition(b"\r\n\r\n")
        if end and len(body) >= int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]):
            self.served_at = time.perf_counter()
            self.status = int(head.split()[1])


@dataclass
class Herd:
    """The readers, and the key and token of each scope."""

    url: str
    keys: dict[tuple[str, ...], list[str]]  # by companies
    tokens: dict[tuple[str, ...], str] = field(default_factory=dict)
    readers: list[Reader] = field(default_factory=list)

    async def read_tokens(self) -> None:
        """Read all changes of each scope."""
        async with aiohttp.ClientSession(f"{self.url}/v1/") as http:
            for companies, keys in self.keys.items():
                page: dict[str, Any] = {"next": self.tokens.get(companies), "at_end": False}
                while not page["at_end"]:
                    query = {"page_size": "1000"} | ({"since": page["next"]} if page["next"] else {})
                    async with http.get("changes", params=query, headers={"x-api-key": keys[0]}) as answer:
                        answer.raise_for_status()
                        page = await answer.json()
                self.tokens[companies] = page["next"]

    async def connect(self, count: int) -> None:
        """Open the connections."""
        host, port = self.url.removeprefix("http://").split(":")
        loop = asyncio.get_running_loop()
        for _ in range(count):
            _, reader = await loop.create_connection(Reader, host, int(port))
            self.readers.append(reader)

    def ask(self, wait: int) -> float:
        """Let every reader ask for what follows the token of its scope; return the time."""
        started, scopes = time.perf_counter(), [*self.keys]
        for number, reader in enumerate(self.readers):
            scope = scopes[number % len(scopes)]
            key = self.keys[scope][number // len(scopes) % _KEYS_PER_SCOPE]
            reader.ask(f"/v1/changes?since={self.tokens[scope]}&wait={wait}", key)
        return started

    async def served(self) -> None:
        """Wait until every reader has its response."""
        async with asyncio.timeout(_LONGEST_SECONDS):
            while any(not reader.status for reader in self.readers):  # noqa: ASYNC110 - readers set no event
                await asyncio.sleep(0.005)


def _memory(pid: int, name: str) -> float:
    """Return the resident memory of a process, or its highest value (`VmHWM`), in MB."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / _MB for line in lines if line.startswith(f"{name}:"))


def _changed(folder: Path, companies: list[str], price: int) -> bytes:
    """Return one changed listing of every company."""
    found: dict[str, bytes] = {}
    with (folder / "listings.ndjson").open("rb") as file:
        for line in file:
            envelope = orjson.loads(line)
            if (company := envelope["platform_company_id"]) in companies and company not in found:
                envelope["updated_at"] = dt.datetime.now(dt.UTC).isoformat()
                envelope["record"]["ListPrice"] = price
                found[company] = orjson.dumps(envelope)
    return b"\n".join([*found.values(), b""])


async def _publish(engine: IndexerContext, folder: Path, lines: bytes) -> float:
    """Apply lines to the live listings; return when they were published."""
    changes = folder / "changes"
    changes.mkdir(exist_ok=True)
    (changes / f"{LISTING.alias}.ndjson").write_bytes(lines)
    with open_source(str(changes)) as source:
        await update(engine, source)
    return time.perf_counter()


async def _measure(url: str, folder: Path, given: argparse.Namespace) -> None:
    connection = ConnectionSettings(url=(url,), prefix=_PREFIX)
    async with connect(connection, connections=4, timeout=60) as client:
        settings = IndexerSettings(dead_letter_folder=str(folder / "dead"), merge=False)
        engine = IndexerContext(client, connection, settings)
        write_source(folder / "all", listings=_LISTINGS)
        with open_source(str(folder / "all")) as source:
            await reindex(engine, source, force=True)
        lines = (folder / "all" / "listings.ndjson").read_bytes().splitlines()
        counted = Counter(orjson.loads(line)["platform_company_id"] for line in lines)
        companies = [*counted]
        groups = chain.from_iterable(combinations(companies, size) for size in range(1, len(companies)))
        store = KeyStore(client, connection.keys_index)
        keys = {
            group: [
                (await store.create(KeyGrant("herd", companies=group, rate=None))).reveal()
                for _ in range(_KEYS_PER_SCOPE)
            ]
            for group in islice(groups, given.scopes)
        }
        limits = {"BROKERAGE_CONCURRENCY": "16", "BROKERAGE_WAITING": str(2 * given.readers)}
        async with programs.service(url, _PREFIX, settings=limits) as service:
            await service.ready()
            herd = Herd(service.url, keys)
            await _run(herd, service.pid, given.readers, lambda price: _publish_all(engine, folder, companies, price))


async def _publish_all(engine: IndexerContext, folder: Path, companies: list[str], price: int) -> float:
    return await _publish(engine, folder, _changed(folder / "all", companies, price))


async def _run(herd: Herd, pid: int, count: int, publish: Any) -> None:
    await herd.read_tokens()
    await herd.connect(count)
    connected = _memory(pid, "VmRSS")
    herd.ask(wait=30)
    await asyncio.sleep(_SETTLE_SECONDS)
    asleep = _memory(pid, "VmRSS")
    published = await publish(1)
    await herd.served()
    _report("update", herd, published)
    print(f"memory: connected {connected:.0f} MB, asleep {asleep:.0f}, highest since then {_memory(pid, 'VmHWM'):.0f}")
    started = time.perf_counter()
    await herd.read_tokens()
    searches = time.perf_counter() - started
    print(f"one search per scope, one after the other: {searches:.2f} s for {len(herd.keys)} scopes")
    started = herd.ask(wait=0)
    await herd.served()
    _report("responses without a search, to requests sent at once", herd, started)


def _report(name: str, herd: Herd, started: float) -> None:
    times = sorted(reader.served_at - started for reader in herd.readers)
    statuses = Counter(reader.status for reader in herd.readers)
    print(f"{name}: {len(times)} readers, statuses {dict(statuses)}")
    print(f"  first after {times[0]:.2f} s, half after {times[len(times) // 2]:.2f}, last after {times[-1]:.2f}")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", type=int, default=5000)
    parser.add_argument("--scopes", type=int, default=50)
    given = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as name, EmbeddedCluster(NodeOptions(ephemeral=True)) as cluster:
        uvloop.run(_measure(cluster.url, Path(name), given))


if __name__ == "__main__":
    main()
