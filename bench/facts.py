"""Facts about the loaded data, and the environment of a run."""

import datetime as dt
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from elasticsearch import AsyncElasticsearch

from bench.options import Node, Options
from bench.questions import COMPANY
from bench.results import Environment
from bench.walks import Company
from cluster.connection import ConnectionSettings, connect
from embedded import VERSION
from mappings import COMPANY as COMPANIES
from mappings import LISTING

_SHOWN = 1000
_PACKAGES = ("aiohttp", "elasticsearch", "uvloop", "orjson")


async def identifiers(connection: ConnectionSettings) -> list[str]:
    """Return the identifiers of some listings of the largest company, for shows."""
    query = {"bool": {"filter": [{"term": {"company": COMPANY}}]}}
    async with connect(connection, connections=1, timeout=60) as client:
        answer = await client.search(index=connection.alias(LISTING), query=query, size=_SHOWN, source=False)
        return [hit["_id"] for hit in answer["hits"]["hits"]]


async def companies(connection: ConnectionSettings) -> list[Company]:
    """Return the companies that have listings, the largest first."""
    async with connect(connection, connections=1, timeout=60) as client:
        answer = await client.search(index=connection.alias(COMPANIES), size=1000, source=False)
        keys = [hit["_id"] for hit in answer["hits"]["hits"]]
        found = [await _company(client, connection.alias(LISTING), key) for key in keys]
    return sorted((each for each in found if each.listings), key=lambda each: -each.listings)


async def _company(client: AsyncElasticsearch, index: str, key: str) -> Company:
    query = {"bool": {"filter": [{"term": {"company": key}}, {"term": {"deleted": False}}]}}
    asked: dict[str, Any] = {"query": query, "sort": [{"id": "desc"}], "size": 1, "track_total_hits": True}
    answer = await client.search(index=index, source=False, **asked)
    hits = answer["hits"]["hits"]
    return Company(key, answer["hits"]["total"]["value"], hits[0]["sort"][0] if hits else "")


async def environment(options: Options, node: Node, connection: ConnectionSettings) -> Environment:
    """Return where and on what is measured."""
    packages = {name: version(name) for name in _PACKAGES}
    return Environment(
        date=dt.datetime.now(dt.UTC).date().isoformat(),
        cores=len(os.sched_getaffinity(0)),
        processor=_processor(),
        versions={"Python": platform.python_version(), "Elasticsearch": VERSION, **packages},
        listings=options.listings,
        companies={each.key: each.listings for each in await companies(connection)},
        page=options.page,
        large_page=options.large_page,
        heap_mb=node.heap_mb,
    )


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
