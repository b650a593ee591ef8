"""What the engine is still doing for a run that went without an end."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import orjson

from cluster.raw import RAW_HEADERS
from indexer.errors import EngineError

if TYPE_CHECKING:
    from elasticsearch import AsyncElasticsearch

_PATH = "/_tasks"
_PARAMETERS = {
    "actions": "indices:data/write/bulk*",
    "detailed": "true",
    "filter_path": "nodes.*.tasks.*.headers,node_failures",
}
_LOOK_SECONDS = 0.5
# A request that had been sent, but was not yet read when the first look found nothing, shows at the second.
_QUIET_LOOKS = 2


async def settled(client: AsyncElasticsearch, opaque_id: str, seconds: float) -> None:
    """Wait until no bulk request with that X-Opaque-Id is under way; raise EngineError if one is after `seconds`.

    A node that cannot be asked may still be at it.
    """
    end, quiet = time.monotonic() + seconds, 0
    while True:
        quiet = 0 if await _is_busy(client, opaque_id) else quiet + 1
        if quiet == _QUIET_LOOKS:
            return
        if not quiet and time.monotonic() >= end:
            raise EngineError(
                f"Elasticsearch has been busy for {seconds:g} s with what an earlier run had sent: try later."
            )
        await asyncio.sleep(_LOOK_SECONDS)


async def _is_busy(client: AsyncElasticsearch, opaque_id: str) -> bool:
    answer = await client.perform_request("GET", _PATH, params=_PARAMETERS, headers=RAW_HEADERS)
    found = orjson.loads(answer.body)
    nodes = found.get("nodes", {}).values()
    marks = {task.get("headers", {}).get("X-Opaque-Id") for node in nodes for task in node["tasks"].values()}
    return opaque_id in marks or "node_failures" in found
