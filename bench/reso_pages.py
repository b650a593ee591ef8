"""What pages of `/v1/reso/Property` cost: `python -m bench.reso_pages [--listings N] [--rounds N]`.

On a node of its own. For every company, reads a page of up to 1,000 and the page of `/v1/listings` that has the same
records, in turn and uncompressed, because a repeated page is compressed once. Prints microseconds per record: by the
clock, and of the processor for the service and for Elasticsearch. Then compares, for ten filters and orders, a page at
random depth with the first, by medians of interleaved requests.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlencode

import aiohttp
import orjson
from elasticsearch import AsyncElasticsearch

from bench import programs
from bench.accounting import tree
from bench.paired import processor_seconds
from cluster.connection import ConnectionSettings, connect
from embedded import EmbeddedCluster, NodeOptions
from indexer import IndexerContext, IndexerSettings, open_source, reindex
from mappings import LISTING
from sample import write_source
from service.keys.store import KeyGrant, KeyStore

_PREFIX = "resopages-"
_SIZE = 100
_FILTERS = (
    {"$filter": "BedroomsTotal ge 3"},
    {"$filter": "ListPrice lt 750000.5 and LivingArea gt 1500"},
    {"$filter": "not (YearBuilt le 1950)"},
    {"$filter": "year(OriginalEntryTimestamp) le 2025"},
    {"$filter": "Heating/any(h:h eq 'Natural gas')"},
    {"$filter": "Heating/all(h:h ne 'Oil')"},
    {"$filter": "startswith(City,'S') or contains(tolower(City),'kent')"},
    {"$filter": "StandardStatus in ('Active','Pending')", "$orderby": "ModificationTimestamp desc"},
    {"$orderby": "ListPrice desc"},
    {"$filter": "PoolPrivateYN eq false", "$orderby": "City,BedroomsTotal desc"},
)


async def _load(url: str, folder: Path, listings: int) -> dict[str, str]:
    """Load a sample; return the companies, each with a key to it alone."""
    connection = ConnectionSettings(url=(url,), prefix=_PREFIX)
    async with connect(connection, connections=4, timeout=60) as client:
        settings = IndexerSettings(dead_letter_folder=str(folder / "dead"), merge=False)
        write_source(folder / "all", listings=listings)
        with open_source(str(folder / "all")) as source:
            await reindex(IndexerContext(client, connection, settings), source, force=True)
        store, keys, company = KeyStore(client, connection.keys_index), {}, ""
        while company := await _company_after(client, connection.alias(LISTING), company):
            grant = KeyGrant("pages", companies=(company,), rate=None)
            keys[company] = (await store.create(grant)).reveal()
        return keys


async def _company_after(client: AsyncElasticsearch, alias: str, company: str) -> str:
    beyond = {"range": {"feed_key": {"gt": f"{company};" if company else ""}}}
    found = await client.search(index=alias, size=1, query=beyond, sort=["feed_key"], source_includes=["company"])
    return next((hit["_source"]["company"] for hit in found["hits"]["hits"]), "")


async def _timed(http: aiohttp.ClientSession, url: str) -> tuple[float, dict[str, Any]]:
    started = time.perf_counter()
    async with http.get(url) as answer:
        answer.raise_for_status()
        await answer.read()
        taken = (time.perf_counter() - started) * 1e3
        return taken, await answer.json()


async def _interleaved(http: aiohttp.ClientSession, urls: list[str], rounds: int) -> list[float]:
    """Return the median milliseconds of each URL."""
    taken = [[(await _timed(http, url))[0] for url in urls] for _ in range(rounds + 1)][1:]
    return [median(column) for column in zip(*taken, strict=True)]


class _Cost(NamedTuple):
    """Microseconds, and the records that took them."""

    clock: float
    service: float
    engine: float
    records: float

    def plus(self, other: _Cost) -> _Cost:
        return _Cost._make(mine + theirs for mine, theirs in zip(self, other, strict=True))

    @property
    def of_processor(self) -> float:
        return self.service + self.engine


class _Measured(NamedTuple):
    """What is measured: a service, and the processes of it and of Elasticsearch."""

    http: aiohttp.ClientSession
    service: int
    engine: int

    def _used(self) -> tuple[float, float, float]:
        return time.perf_counter(), processor_seconds(self.service), processor_seconds(self.engine)

    async def cost(self, url: str, key: str, member: str) -> _Cost:
        """Return the cost of a request, whose records are in `member`."""
        before = self._used()
        headers = {"x-api-key": key, "Accept-Encoding": "identity"}
        async with self.http.get(url, headers=headers) as answer:
            answer.raise_for_status()
            body = await answer.read()
        spent = [(now - then) * 1e6 for now, then in zip(self._used(), before, strict=True)]
        return _Cost._make([*spent, len(orjson.loads(body)[member])])


def _same_records(company: str) -> list[tuple[str, str]]:
    """Return the requests of the feed and of Property for the same records, and where these are."""
    feed = {"platform_company_id": company, "updated_since": 1, "market_status": "on-market", "page_size": 1000}
    odata = {"$top": 1000, "$filter": "StandardStatus in ('Active','Pending','Active Under Contract')"}
    return [(f"listings?{urlencode(feed)}", "Listings"), (f"reso/Property?{urlencode(odata)}", "value")]


async def _compare_with_feed(measured: _Measured, keys: Mapping[str, str], rounds: int) -> None:
    sums = [_Cost(0, 0, 0, 0)] * 2
    for turn in range(rounds + 1):
        for company, key in keys.items():
            costs = [await measured.cost(url, key, member) for url, member in _same_records(company)]
            if costs[0].records != costs[1].records:
                raise RuntimeError(f"{company} has {costs[0].records} and {costs[1].records} records")
            if turn:
                sums = [before.plus(cost) for before, cost in zip(sums, costs, strict=True)]
    for name, cost in zip(("feed", "Property"), sums, strict=True):
        clock, service, engine = (spent / cost.records for spent in cost[:3])
        print(f"{name:8} {clock:6.1f} µs a record; processor: service {service:5.1f}, Elasticsearch {engine:5.1f}")
    (feed, odata) = sums
    clock, processor = odata.clock / feed.clock, odata.of_processor / feed.of_processor
    print(f"ratio by the clock {clock:.2f}, of the processor {processor:.2f}")


async def _compare_depths(http: aiohttp.ClientSession, rounds: int) -> None:
    chance = random.Random(7)  # noqa: S311 - not a secret
    for options in _FILTERS:
        first = f"reso/Property?{urlencode({**options, '$select': 'ListingKey,ListPrice'})}"
        pages, link = [first], first
        while link:
            _, page = await _timed(http, link)
            link = str(page.get("@odata.nextLink", ""))
            # The last page may have fewer records.
            pages += [link] if link and len(page["value"]) == _SIZE else []
        deep = chance.choice(pages[1:-1] or pages)
        one, other = await _interleaved(http, [first, deep], rounds)
        print(f"{other / one:5.2f}  page {pages.index(deep) + 1} of {len(pages)}: {options}")


def _node_pid() -> int:
    commands = {each.pid: Path(f"/proc/{each.pid}/cmdline").read_bytes() for each in tree(os.getpid())}
    return next(pid for pid, command in commands.items() if b"node_main" in command)


async def _measure(cluster: EmbeddedCluster, folder: Path, given: argparse.Namespace) -> None:
    keys = await _load(cluster.url, folder, given.listings)
    settings = {"BROKERAGE_ACCESS_LOG": "none", "BROKERAGE_SHARED_SECONDS": "0"}
    async with programs.service(cluster.url, _PREFIX, settings=settings) as service:
        await service.ready()
        async with aiohttp.ClientSession(f"{service.url}/v1/") as http:
            await _compare_with_feed(_Measured(http, service.pid, _node_pid()), keys, given.rounds)
        key = next(iter(keys.values()))
        async with aiohttp.ClientSession(f"{service.url}/v1/", headers={"x-api-key": key}) as http:
            await _compare_depths(http, given.rounds)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listings", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, EmbeddedCluster(NodeOptions(ephemeral=True)) as cluster:
        asyncio.run(_measure(cluster, Path(name), given))


if __name__ == "__main__":
    main()
