"""What `index status` says of the shards of a live index: on no node, without a replica, too large."""

from typing import Any

import orjson

from cluster.shard_placement import SHARD_COLUMNS, large_shards, missing_copies, missing_shards, read_copies
from indexer.context import IndexerContext
from indexer.indices.backoff import retry


async def shard_problems(context: IndexerContext, index: str) -> tuple[list[str], bool]:
    """Return a sentence for each problem, and whether every shard can be read."""
    read, columns = context.client.cat.shards, [*SHARD_COLUMNS]
    rows: Any = await retry(
        lambda: read(index=index, format="json", bytes="b", h=columns), context.settings.retry_seconds
    )
    copies = read_copies(orjson.loads(rows.body))  # the client does not parse this kind of response
    missing = [*missing_shards(copies)]
    others = [*missing_copies(copies), *large_shards(copies, context.settings.shard_gigabytes)]
    return missing + others, not missing
