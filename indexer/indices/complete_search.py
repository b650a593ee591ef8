"""Searches and counts that have every shard, or fail: by default Elasticsearch leaves out one that is not available."""

from collections.abc import Sequence
from typing import Any

from elasticsearch import AsyncElasticsearch

from indexer.indices.backoff import retry


async def search_completely(
    client: AsyncElasticsearch, index: str | Sequence[str], seconds: float, **body: Any
) -> dict[str, Any]:
    """Return the response of all shards, retrying for up to `seconds` while one of them is not available."""
    response = await retry(lambda: client.search(index=index, allow_partial_search_results=False, **body), seconds)
    return dict(response)


async def count_completely(client: AsyncElasticsearch, index: str, seconds: float, query: dict[str, Any]) -> int:
    """Return how many documents match; `_count` itself cannot be kept from leaving out a shard."""
    exact = {"size": 0, "track_total_hits": True, "filter_path": "hits.total.value"}
    found = await search_completely(client, index, seconds, query=query, **exact)
    return int(found["hits"]["total"]["value"])
