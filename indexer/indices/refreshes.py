"""Refreshes after which every copy that searches may ask shows all writes, and up to which `_seq_no` those go.

Elasticsearch does not report a copy that it could not reach for a refresh as failed, and keeps it in use. A mark that
is published then promises what a reader of that copy does not find.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from elasticsearch import AsyncElasticsearch

from indexer.context import IndexerContext
from indexer.errors import ElasticsearchError
from indexer.indices.backoff import retry

# The first refresh of a large index is one request that may take hours.
_REFRESH_SECONDS = 24 * 3600
_POLL_SECONDS = 0.5
_MOMENT = "1s"
_STARTING = "INITIALIZING"
_NOTHING = -1


async def refresh_all_copies(client: AsyncElasticsearch, index: str, seconds: float) -> None:
    """Make all writes visible in each assigned copy of each shard.

    Raises ElasticsearchError if a copy that is in use cannot be refreshed for `seconds`.
    """
    patient = client.options(request_timeout=_REFRESH_SECONDS)

    async def is_refreshed() -> bool:
        response = await retry(lambda: patient.indices.refresh(index=index), seconds)
        return await _reached_all(client, response["_shards"], index)

    failure = f"{index} could not be refreshed in every copy of its shards for {seconds:g} s."
    await _until(is_refreshed, seconds, failure)


async def _reached_all(client: AsyncElasticsearch, shards: Mapping[str, int], index: str) -> bool:
    """Whether the copies that a refresh has not reached are on no node: such a copy starts with all writes visible."""
    if shards["successful"] == shards["total"]:
        return True
    health = await _health(client, index)
    return health["status"] != "red" and shards["successful"] >= int(health["active_shards"])


async def refresh_to_seq_nos(context: IndexerContext, index: str) -> list[int]:
    """Refresh an index and return for each shard a `_seq_no` up to which all writes are visible, -1 without any.

    Raises ElasticsearchError if a shard is on no node, or its copies cannot be refreshed, for `retry_seconds`.
    """
    client, seconds, found = context.client, context.settings.retry_seconds, dict[int, int]()

    async def are_found() -> bool:
        response = await retry(lambda: client.indices.stats(index=index, metric="docs", level="shards"), seconds)
        found.update(_checkpoints(response))
        shards = response["_shards"]
        if shards["successful"] == shards["total"]:
            return True
        health = await _health(client, index)
        return health["status"] != "red" and len(found) == int(health["active_primary_shards"])

    await _until(are_found, seconds, f"{index} is red: a shard of it is on none of the nodes.")
    await refresh_all_copies(client, index, seconds)
    return [found[number] for number in range(len(found))]


def _checkpoints(response: Any) -> dict[int, int]:
    """Return the global checkpoint of each shard whose primary has answered.

    All copies have the writes up to it. Above, the number of a write may be used again for another one, if the primary
    is lost before its copies have that write.
    """
    return {
        int(number): max(_NOTHING, int(copy["seq_no"]["global_checkpoint"]))
        for statistics in response.get("indices", {}).values()
        for number, copies in statistics["shards"].items()
        for copy in copies
        if copy["routing"]["primary"] and copy["routing"]["state"] != _STARTING
    }


async def _health(client: AsyncElasticsearch, index: str) -> Mapping[str, Any]:
    patient = client.options(ignore_status=408)
    health: Mapping[str, Any] = (await patient.cluster.health(index=index, timeout=_MOMENT)).body
    return health


async def _until(condition: Callable[[], Awaitable[bool]], seconds: float, failure: str) -> None:
    end = time.monotonic() + seconds
    while not await condition():
        if time.monotonic() >= end:
            raise ElasticsearchError(failure)
        await asyncio.sleep(_POLL_SECONDS)
