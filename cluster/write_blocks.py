"""Blocks that make an index refuse writes: that of full disks, and those that administrators set.

At the flood stage Elasticsearch blocks writes to every index with a shard on a full disk, deletions of documents
included. It removes the block itself once there is space. If it is removed earlier, Elasticsearch sets it again at the
next check of its disks, by default every 30 seconds.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from elasticsearch import ApiError, AsyncElasticsearch, AuthorizationException

Result = TypeVar("Result")

FLOOD_BLOCK_SETTING = "index.blocks.read_only_allow_delete"
WRITE_BLOCKS = (FLOOD_BLOCK_SETTING, "index.blocks.write", "index.blocks.read_only")
# The number of the block of full disks; the status in front of it differs between versions.
_FLOOD_BLOCK = "/12/"
# A block of the whole service ends by itself: a node is starting, or a master is being elected.
_TRANSIENT = "[SERVICE_UNAVAILABLE/"
# Elasticsearch may set its block again between two requests.
_MAX_LIFTS = 3


def write_block(error: object) -> str:
    """Return the reason in the `error` of a response if it says that an index is blocked, otherwise an empty text."""
    if not isinstance(error, dict) or error.get("type") != "cluster_block_exception":
        return ""
    reason = str(error.get("reason"))
    return "" if _TRANSIENT in reason else reason.rstrip(";")


def is_flood_block(reason: str) -> bool:
    """Return whether the reason for a refused write is that disks are full."""
    return _FLOOD_BLOCK in reason


async def lift_flood_block(client: AsyncElasticsearch, index: str) -> None:
    """Remove the block of full disks from an index, so that it accepts writes until Elasticsearch checks its disks."""
    await client.indices.put_settings(index=index, settings={FLOOD_BLOCK_SETTING: None})


class BlockedIndex(Exception):
    """The index refuses writes; the text says why and what to do."""


class BlockedWrites:
    """Small writes to one index that cannot wait for space: one that meets the block of full disks lifts it."""

    def __init__(self, client: AsyncElasticsearch, index: str) -> None:
        """Write to `index`."""
        self.has_lifted = False
        self._client = client
        self._index = index

    async def run(self, write: Callable[[], Awaitable[Result]]) -> Result:
        """Run a write, again if the block of full disks had to be lifted; raise BlockedIndex for any other block."""
        lifts_left = _MAX_LIFTS
        while True:
            try:
                return await write()
            except ApiError as error:
                reason = refusal_reason(error)
                if not reason:
                    raise
                if not is_flood_block(reason) or not lifts_left:
                    raise BlockedIndex(
                        f"Elasticsearch rejects writes: {reason}. Remove the block from {self._index}."
                    ) from error
            lifts_left -= 1
            await self._lift()

    async def _lift(self) -> None:
        try:
            await lift_flood_block(self._client, self._index)
        except AuthorizationException as error:
            if reason := refusal_reason(error):
                raise BlockedIndex(f"Elasticsearch rejects writes: {reason}. Remove the block.") from error
            raise BlockedIndex(
                "Elasticsearch rejects writes because its disks are full, and this user lacks the privilege `manage` "
                f"on {self._index} to lift the block: free disk space, or let an administrator set "
                f"{FLOOD_BLOCK_SETTING} of {self._index} to null, and repeat the command at once."
            ) from error
        self.has_lifted = True


def refusal_reason(error: ApiError) -> str:
    """Return why a write was refused if the index is blocked, otherwise an empty text."""
    return write_block(error.body.get("error") if isinstance(error.body, dict) else None)
