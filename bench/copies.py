"""Copies of one company in the ways that consumers have, from a worker of the service whose start is measured, too."""

import re
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

import orjson

from bench import programs
from bench.accounting import forget_peaks, peak_bytes, processor_seconds, processor_seconds_since, resident_bytes
from bench.client import Connection, get
from bench.measure import Meter, turned, watched_by
from bench.questions import ROOT, SERVICE
from bench.results import Copied, Copies
from bench.walks import Company, ServiceWay, walk
from cluster.connection import ConnectionSettings

# The end of a page of changes, with the token of the next one.
_NEXT = re.compile(rb'"next":"([^"]+)","at_end":(true|false)')
_TAIL_BYTES = 4096


@dataclass(frozen=True)
class Copier:
    """Copies all listings of a company over one connection; each way returns the bytes of its bodies."""

    server: str
    key: str
    company: Company
    page: int
    connection: Connection

    async def by_pages(self) -> int:
        way = ServiceWay(self.server, f"{ROOT}/listings", self.key, self.page)
        return (await walk(self.connection, way, self.company))[1]

    async def by_changes(self) -> int:
        length, since, is_whole = 0, dict[str, str](), False
        while not is_whole:
            request = self._get("changes", resources="listings", page_size=str(self.page), **since)
            answer = await self.connection.fetch(request, keep=True)
            found = _NEXT.search(answer.body[-_TAIL_BYTES:])
            if found is None:
                raise ValueError("A page of changes does not end with a token.")
            length += answer.length
            since, is_whole = {"since": found[1].decode()}, found[2] == b"true"
        return length

    async def by_snapshot(self, encoding: str = "identity") -> int:
        return (await self.connection.fetch(self._get("snapshot/listings", encoding))).length

    async def by_file(self) -> int:
        listed = orjson.loads((await self.connection.fetch(self._get("exports/listings"), keep=True)).body)
        [href] = [file["href"] for file in listed["files"] if file["format"] == "ndjson.zst"]
        return (await self.connection.fetch(get(self.server, href, {"x-api-key": self.key}))).length

    def _get(self, operation: str, encoding: str = "identity", **parameters: str) -> bytes:
        query = urlencode({"platform_company_id": self.company.key, **parameters})
        headers = {"x-api-key": self.key, "Accept-Encoding": encoding}
        return get(self.server, f"{ROOT}/{operation}?{query}", headers)


WAYS: Final[Mapping[str, Callable[[Copier], Awaitable[int]]]] = {
    "pages": Copier.by_pages,
    "changes": Copier.by_changes,
    "snapshot": Copier.by_snapshot,
    "snapshot, zstd": lambda copier: copier.by_snapshot("zstd"),
    "published file, zstd": Copier.by_file,
}


async def measure_copies(connection: ConnectionSettings, key: str, company: Company, page: int, meter: Meter) -> Copies:
    """Publish the files of a company, start a service that has them, and take copies in turn.

    Each round begins with another way. The processor time of Elasticsearch is known if its process is.
    """
    [url] = connection.url
    taken: dict[str, list[Copied]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory(prefix="bench-exports-") as folder:
        files = {"BROKERAGE_EXPORTS": folder}
        environment = {"ELASTICSEARCH_URL": url, "BROKERAGE_INDEX_PREFIX": connection.prefix, **files}
        programs.measure_command("index", "publish", "--company", company.key, environment=environment)
        started = time.perf_counter()
        async with programs.service(url, connection.prefix, settings=files) as program:
            await program.ready()
            start, at_rest = time.perf_counter() - started, resident_bytes(program.pid)
            forget_peaks(program.pid)
            [to_service] = await meter.pool.take(program.url, 1)
            copier = Copier(program.url, key, company, page, to_service)
            processes = {**meter.processes, SERVICE: program.pid}
            for number in range(meter.size.walks):
                for way in turned(WAYS, number):
                    taken[way].append(await _measured(WAYS[way], copier, watched_by(SERVICE, processes)))
                    meter.progress.report(f"copies: {way}", seldom=True)
            return Copies(company.key, company.listings, taken, start, at_rest, peak_bytes(program.pid))


async def _measured(copy: Callable[[Copier], Awaitable[int]], copier: Copier, processes: Mapping[str, int]) -> Copied:
    before, started = processor_seconds(processes), time.perf_counter()
    size = await copy(copier)
    return Copied(time.perf_counter() - started, size, processor_seconds_since(before, processes))
