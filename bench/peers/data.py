"""The records of the peers: those of the feed, read from the service once and written as each of them keeps them."""

import datetime as dt
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import asyncpg
import orjson
from elasticsearch import AsyncElasticsearch, NotFoundError

from bench.client import Pool
from bench.measure import Progress
from bench.peers.fastapi_feed import feed_filter
from bench.peers.postgres_feed import INDICES, TABLE
from bench.questions import BY_COMPANY, BY_IDENTIFIER, COMPANY, SENTINEL, UNSORTED, Heard
from bench.walks import Company, ServiceWay

# How the index of each textbook arm is sorted.
ORDERS: Final[Mapping[str, Sequence[str]]] = {
    UNSORTED: (),
    BY_IDENTIFIER: ("PlatformListingId",),
    BY_COMPANY: ("company", "PlatformListingId"),
}
# What a team that filters a feed indexes; everything else is in the source alone.
_PROPERTIES: Final[dict[str, Any]] = {
    "company": {"type": "keyword"},
    "PlatformListingId": {"type": "keyword"},
    "ListingID": {"type": "keyword"},
    "Status": {"type": "keyword"},
    "City": {"type": "keyword"},
    "PostalCode": {"type": "keyword"},
    "PropertyType": {"type": "keyword"},
    "ListAgentUUID": {"type": "keyword"},
    "ListPrice": {"type": "long"},
    "OnMarket": {"type": "boolean"},
    "ModificationTimestamp": {"type": "date"},
}


def textbook_index(prefix: str, order: str) -> str:
    """Return the name of an arm's index."""
    return f"{prefix}textbook-{len(ORDERS[order])}"


def textbook_page(prefix: str, order: str, size: int) -> Heard:
    """Return the search for a page of the feed in an arm's index."""
    sort = ORDERS[order] or ORDERS[BY_IDENTIFIER]
    after = {"company": COMPANY, "PlatformListingId": SENTINEL}
    body = {
        "size": size,
        "query": {"bool": {"filter": feed_filter(COMPANY, 1)}},
        "sort": [{field: "asc"} for field in sort],
        "search_after": [after[field] for field in sort],
        "track_total_hits": False,
    }
    return Heard("POST", f"/{textbook_index(prefix, order)}/_search", orjson.dumps(body))


@dataclass(frozen=True)
class Feed:
    """The listings of the service, by company."""

    way: ServiceWay
    companies: Sequence[Company]
    progress: Progress

    @property
    def listings(self) -> int:
        """How many there are."""
        return sum(company.listings for company in self.companies)

    async def pages(self) -> AsyncIterator[list[dict[str, Any]]]:
        """Yield all of them, page by page, each with the key of its company."""
        done, pool = 0, Pool()
        try:
            [connection] = await pool.take(self.way.server, 1)
            for company in self.companies:
                after, left = None, company.listings
                while left > 0:
                    answer = await connection.fetch(self.way.request(company.key, after), keep=True)
                    records = orjson.loads(answer.body)["Listings"]
                    yield [{"company": company.key, **record} for record in records]
                    done += len(records)
                    self.progress.report(f"loading peers: {done:,} of {self.listings:,}", seldom=True)
                    after, left = self.way.cursor(answer), left - self.way.size
        finally:
            pool.close()


async def fill_textbooks(client: AsyncElasticsearch, prefix: str, feed: Feed) -> None:
    """Write the indices of the textbook arms, each merged into one segment like that of the service."""
    for order, fields in ORDERS.items():
        await client.options(ignore_status=404).indices.delete(index=textbook_index(prefix, order))
        sorting = {"sort.field": list(fields), "sort.order": ["asc"] * len(fields)} if fields else {}
        await client.indices.create(
            index=textbook_index(prefix, order),
            settings={"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "-1", **sorting},
            mappings={"dynamic": False, "properties": _PROPERTIES},
        )
    async for records in feed.pages():
        for order in ORDERS:
            await client.bulk(
                index=textbook_index(prefix, order),
                operations=[
                    line for record in records for line in ({"index": {"_id": record["PlatformListingId"]}}, record)
                ],
            )
    for order in ORDERS:
        await client.indices.forcemerge(index=textbook_index(prefix, order), max_num_segments=1)
        await client.indices.refresh(index=textbook_index(prefix, order))


async def textbooks_are_complete(client: AsyncElasticsearch, prefix: str, listings: int) -> bool:
    """Whether all indices hold so many listings."""
    try:
        counts = [(await client.count(index=textbook_index(prefix, order)))["count"] for order in ORDERS]
    except NotFoundError:
        return False
    return counts == [listings] * len(ORDERS)


async def fill_postgres(url: str, feed: Feed) -> None:
    """Write the table of the PostgreSQL peer, unless it is complete."""
    database = await asyncpg.connect(url)
    try:
        if await database.fetchval("SELECT to_regclass('listings')") is not None:
            if await database.fetchval("SELECT count(*) FROM listings") == feed.listings:
                return
            await database.execute("DROP TABLE listings")
        await database.execute(TABLE)
        async for records in feed.pages():
            await database.copy_records_to_table("listings", records=[_row(record) for record in records])
        for statement in INDICES:
            await database.execute(statement, timeout=None)
    finally:
        await database.close()


def _row(record: Mapping[str, Any]) -> tuple[str, str, dt.datetime, str]:
    body = {name: value for name, value in record.items() if name != "company"}
    updated = dt.datetime.fromisoformat(record["ModificationTimestamp"])
    return record["company"], record["PlatformListingId"], updated, orjson.dumps(body).decode()
