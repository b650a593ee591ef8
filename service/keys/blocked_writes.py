"""Writes to the index of keys while disks are full: keys are a few bytes, and revoking one cannot wait for space."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from elasticsearch import ApiError, AuthorizationException

from cluster.write_blocks import FLOOD_BLOCK_SETTING, is_flood_block, lift_flood_block, write_block

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from elasticsearch import AsyncElasticsearch

Result = TypeVar("Result")

# Elasticsearch may set its block again between the two requests; it checks its disks every 30 seconds.
_MAX_LIFTS = 3


class BlockedKeys(Exception):
    """The index of keys refuses writes; the text says why and what to do."""


class BlockedWrites:
    """Writes to one index, from which the block of full disks is lifted when a write meets it."""

    def __init__(self, client: AsyncElasticsearch, index: str) -> None:
        """Write to `index`."""
        self.has_lifted = False
        self._client = client
        self._index = index

    async def run(self, write: Callable[[], Awaitable[Result]]) -> Result:
        """Run a write, again if the block of full disks had to be lifted; raise BlockedKeys for any other block."""
        lifts_left = _MAX_LIFTS
        while True:
            try:
                return await write()
            except ApiError as error:
                reason = refusal_reason(error)
                if not reason:
                    raise
                if not is_flood_block(reason) or not lifts_left:
                    raise BlockedKeys(
                        f"Elasticsearch rejects writes: {reason}. Remove the block from {self._index}."
                    ) from error
            lifts_left -= 1
            await self._lift()

    async def _lift(self) -> None:
        try:
            await lift_flood_block(self._client, self._index)
        except AuthorizationException as error:
            raise BlockedKeys(
                "Elasticsearch rejects writes because its disks are full, and this user lacks the privilege `manage` "
                f"on {self._index} to lift the block: free disk space, or let an administrator set "
                f"{FLOOD_BLOCK_SETTING} of {self._index} to null, and repeat the command at once."
            ) from error
        self.has_lifted = True


def refusal_reason(error: ApiError) -> str:
    """Return why a write was refused if the index is blocked, otherwise an empty text."""
    return write_block(error.body.get("error") if isinstance(error.body, dict) else None)
