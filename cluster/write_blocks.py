"""Blocks that make an index refuse writes: that of full disks, and those that administrators set.

At the flood stage Elasticsearch blocks writes to every index with a shard on a full disk, deletions of documents
included. It removes the block itself once there is space. If it is removed earlier, Elasticsearch sets it again at the
next check of its disks, by default every 30 seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elasticsearch import AsyncElasticsearch

FLOOD_BLOCK_SETTING = "index.blocks.read_only_allow_delete"
# The number of the block of full disks; the status in front of it differs between versions.
_FLOOD_BLOCK = "/12/"
# A block of the whole service ends by itself: a node is starting, or a master is being elected.
_TRANSIENT = "[SERVICE_UNAVAILABLE/"


def write_block(error: object) -> str:
    """Return the reason in the `error` of a response if it says that an index is blocked, otherwise an empty text."""
    if not isinstance(error, dict) or error.get("type") != "cluster_block_exception":
        return ""
    reason = str(error.get("reason"))
    return "" if _TRANSIENT in reason else reason


def is_flood_block(reason: str) -> bool:
    """Return whether the reason for a refused write is that disks are full."""
    return _FLOOD_BLOCK in reason


async def lift_flood_block(client: AsyncElasticsearch, index: str) -> None:
    """Remove the block of full disks from an index, so that it accepts writes until Elasticsearch checks its disks."""
    await client.indices.put_settings(index=index, settings={FLOOD_BLOCK_SETTING: None})
