"""What Elasticsearch counts in the shards of an index: how worn they are, and how large."""

from typing import Any

from cluster.index_wear import WEAR_FILTER, WEAR_METRICS, IndexWear, read_wear
from indexer.context import IndexerContext
from indexer.indices.backoff import retry

_MARGIN_SECONDS = 60
_SIZE_FILTER = "indices.*.shards.*.store.size_in_bytes"


async def index_wear(context: IndexerContext, index: str) -> IndexWear:
    """Return the wear of an index."""
    return read_wear(await shard_copies(context, index, WEAR_METRICS, WEAR_FILTER))


async def largest_shard(context: IndexerContext, index: str) -> int:
    """Return the bytes of the largest shard of an index."""
    shards = await shard_copies(context, index, "store", _SIZE_FILTER)
    return max((copy["store"]["size_in_bytes"] for copies in shards.values() for copy in copies), default=0)


async def has_all_shards(context: IndexerContext, index: str) -> bool:
    """Whether each shard is on a node, or comes to one within BROKERAGE_GREEN_SECONDS: nodes are restarted."""
    seconds = context.settings.green_seconds
    patient = context.client.options(request_timeout=seconds + _MARGIN_SECONDS, ignore_status=408)
    health = await patient.cluster.health(index=index, wait_for_status="yellow", timeout=f"{seconds}s")
    return bool(health["status"] != "red")


async def shard_copies(
    context: IndexerContext, index: str, metrics: str, fields: str
) -> dict[str, list[dict[str, Any]]]:
    """Return statistics of the copies of each shard, by its number; `fields` are the paths to return."""
    read = context.client.indices.stats
    stats = await retry(
        lambda: read(index=index, metric=metrics, level="shards", filter_path=fields), context.settings.retry_seconds
    )
    shards: dict[str, list[dict[str, Any]]] = stats.get("indices", {}).get(index, {}).get("shards", {})
    return shards
