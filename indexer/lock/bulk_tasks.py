"""Bulk tasks that Elasticsearch may still be running for an earlier run."""

import asyncio
import time

import orjson
from elasticsearch import AsyncElasticsearch

from cluster.http.raw_json import RAW_HEADERS
from indexer.errors import ElasticsearchError

_PATH = "/_tasks"
_PARAMETERS = {
    "actions": "indices:data/write/bulk*",
    "detailed": "true",
    "filter_path": "nodes.*.tasks.*.headers,node_failures",
}
_POLL_SECONDS = 0.5
# A request that was sent but not yet read at the first poll shows at the second.
_QUIET_POLLS = 2


async def wait_for_bulk_tasks(client: AsyncElasticsearch, opaque_id: str, seconds: float) -> None:
    """Wait until no bulk request with that X-Opaque-Id is running; raise ElasticsearchError if one is after `seconds`.

    A node that does not respond may still be running one.
    """
    end, quiet = time.monotonic() + seconds, 0
    while True:
        quiet = 0 if await _is_busy(client, opaque_id) else quiet + 1
        if quiet == _QUIET_POLLS:
            return
        if not quiet and time.monotonic() >= end:
            raise ElasticsearchError(
                f"Elasticsearch has been busy for {seconds:g} s with requests of an earlier run: try again later."
            )
        await asyncio.sleep(_POLL_SECONDS)


async def _is_busy(client: AsyncElasticsearch, opaque_id: str) -> bool:
    response = await client.perform_request("GET", _PATH, params=_PARAMETERS, headers=RAW_HEADERS)
    listed = orjson.loads(response.body)
    nodes = listed.get("nodes", {}).values()
    opaque_ids = {task.get("headers", {}).get("X-Opaque-Id") for node in nodes for task in node["tasks"].values()}
    return opaque_id in opaque_ids or "node_failures" in listed
