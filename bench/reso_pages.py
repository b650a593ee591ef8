"""What pages of `/v1/reso/Property` cost: `python -m bench.reso_pages [--listings N] [--rounds N]`.

On a node of its own. Compares a page of 1,000 with the page of `/v1/listings` that has the same records, per record,
and for ten filters and orders a page at random depth with the first. Prints medians of interleaved requests.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlencode

import aiohttp

from bench import programs
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


async def _load(url: str, folder: Path, listings: int) -> tuple[str, str]:
    """Load a sample; return a company, and a key to it alone."""
    connection = ConnectionSettings(url=(url,), prefix=_PREFIX)
    async with connect(connection, connections=4, timeout=60) as client:
        settings = IndexerSettings(dead_letter_folder=str(folder / "dead"), merge=False)
        write_source(folder / "all", listings=listings)
        with open_source(str(folder / "all")) as source:
            await reindex(IndexerContext(client, connection, settings), source, force=True)
        found = await client.search(index=connection.alias(LISTING), size=1, source_includes=["company"])
        company = found["hits"]["hits"][0]["_source"]["company"]
        grant = KeyGrant("pages", companies=(company,), rate=None)
        return company, (await KeyStore(client, connection.keys_index).create(grant)).reveal()


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


async def _compare_with_feed(http: aiohttp.ClientSession, company: str, rounds: int) -> None:
    sent = {"platform_company_id": company, "updated_since": 1, "market_status": "all", "page_size": 1000}
    feed = f"listings?{urlencode(sent)}"
    asked = {"$top": 1000, "$filter": "StandardStatus ne 'Closed'"}
    odata = f"reso/Property?{urlencode(asked)}"
    numbers = [len((await _timed(http, feed))[1]["Listings"]), len((await _timed(http, odata))[1]["value"])]
    of_feed, of_odata = await _interleaved(http, [feed, odata], rounds)
    per = [of_feed / numbers[0] * 1e3, of_odata / numbers[1] * 1e3]
    print(f"page of {numbers}: feed {per[0]:.1f} µs, Property {per[1]:.1f} µs a record, ratio {per[1] / per[0]:.2f}")


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


async def _measure(url: str, folder: Path, given: argparse.Namespace) -> None:
    company, key = await _load(url, folder, given.listings)
    settings = {"BROKERAGE_ACCESS_LOG": "none", "BROKERAGE_SHARED_SECONDS": "0"}
    async with programs.service(url, _PREFIX, settings=settings) as service:
        await service.ready()
        async with aiohttp.ClientSession(f"{service.url}/v1/", headers={"x-api-key": key}) as http:
            await _compare_with_feed(http, company, given.rounds)
            await _compare_depths(http, given.rounds)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listings", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, EmbeddedCluster(NodeOptions(ephemeral=True)) as cluster:
        asyncio.run(_measure(cluster.url, Path(name), given))


if __name__ == "__main__":
    main()
