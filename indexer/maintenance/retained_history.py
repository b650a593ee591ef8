"""Deleted documents that Elasticsearch keeps: a merge drops only those that no copy of a shard can still ask for.

What a copy may need, if it comes back after a failure, is held by a lease, which Elasticsearch moves on every 30 s, and
by the last flush. A merge soon after an update would rewrite the whole shard and keep every gap.
"""

import asyncio
import time
from typing import Any

from indexer.context import IndexerContext
from indexer.indices.backoff import retry
from indexer.indices.shard_statistics import shard_copies

# Twice the usual interval, and some more: then the merge drops what it can.
_LONGEST_SECONDS = 75.0
_POLL_SECONDS = 1.0
_FILTER = "indices.*.shards.*.seq_no.max_seq_no,indices.*.shards.*.retention_leases.leases.retaining_seq_no"


async def release_history(context: IndexerContext, index: str) -> bool:
    """Flush an index, and wait until a merge can drop what was deleted so far; return False if it still cannot."""
    end = time.monotonic() + _LONGEST_SECONDS
    written = {shard: _written(copies) for shard, copies in (await _history(context, index)).items()}
    await retry(lambda: context.client.indices.flush(index=index), context.settings.retry_seconds)
    while await _is_held(context, index, written):
        if time.monotonic() >= end:
            return False
        await asyncio.sleep(_POLL_SECONDS)
    return True


async def _is_held(context: IndexerContext, index: str, written: dict[str, int]) -> bool:
    history = await _history(context, index)
    return any(_retained(copies) <= written.get(shard, -1) for shard, copies in history.items())


async def _history(context: IndexerContext, index: str) -> dict[str, list[dict[str, Any]]]:
    return await shard_copies(context, index, "docs", _FILTER)


def _written(copies: list[dict[str, Any]]) -> int:
    """Return the number of the last operation in a shard."""
    return max((copy.get("seq_no", {}).get("max_seq_no", -1) for copy in copies), default=-1)


def _retained(copies: list[dict[str, Any]]) -> float:
    """Return the number of the first operation of a shard that a lease holds."""
    leases = [lease for copy in copies for lease in copy.get("retention_leases", {}).get("leases", ())]
    return min((lease["retaining_seq_no"] for lease in leases), default=float("inf"))
