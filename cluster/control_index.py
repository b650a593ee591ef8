"""The control index: small documents through which the indexer publishes its progress to the service."""

from typing import Any

import msgspec
from elasticsearch import AsyncElasticsearch, BadRequestError, NotFoundError

CONTROL_BODY: dict[str, Any] = {
    "settings": {"index.number_of_shards": 1, "index.auto_expand_replicas": "0-1"},
    "mappings": {"dynamic": False},
}


# Milliseconds: how far back a reader without a watermark starts.
_LONGEST_VOID = 7 * 86_400_000


class Mark(msgspec.Struct, frozen=True):
    """The published watermark of a resource: all changes stamped up to here are visible to searches.

    `clock` is in milliseconds since 1970, `sequence` counts changes, `epoch` counts rollbacks, `generation` is the name
    of the index. Later changes get a higher clock and a higher sequence.

    `forgotten` is the highest sequence of a deleted tombstone: a reader that is behind it may have missed a deletion.
    It is published before the tombstones are deleted.

    `life` is a random name for what the sequence counts (decision 18). It changes when the data do not continue those
    that readers have seen, as after a restore. Marks of earlier versions have none; readers up to the sequence
    `named_at`, at which such a mark got its name, may continue without it. `resend_before` is in milliseconds since
    1970: readers by time that have stopped before it read everything once more. `index` and `control` are the
    identities of the generation and of the control index (`cluster.index_identity`), empty if unknown.

    Clocks above `repaired`, and above `resend_before`, up to `void` were published by an indexer whose own clock was
    ahead. Their changes were stamped again from `repaired` on; so a reader that continues from such a clock continues
    from there (decision 31).
    """

    clock: int
    sequence: int
    epoch: int
    generation: str
    forgotten: int = 0
    life: str = ""
    named_at: int = -1
    resend_before: int = 0
    index: str = ""
    control: str = ""
    repaired: int = 0
    void: int = 0

    def clock_to_resume(self, clock: int) -> int:
        """Return the clock from which a reader must continue that was given `clock`."""
        if clock < self.resend_before:
            return 0
        return self.repaired if self._is_void(clock) else clock

    @property
    def is_void_long(self) -> bool:
        """Whether void clocks are believed once their time has come, because true ones would repeat too much.

        Up to a week, a reader with a true one receives at most what a reader without a watermark does.
        """
        return self.void - self._void_from > _LONGEST_VOID

    @property
    def _void_from(self) -> int:
        return max(self.repaired, self.resend_before)

    def _is_void(self, clock: int) -> bool:
        return self._void_from < clock <= self.void and (clock > self.clock or not self.is_void_long)


def mark_id(alias: str) -> str:
    """Return the id of the document with the mark of an alias."""
    return f"mark-{alias}"


async def ensure_index(client: AsyncElasticsearch, index: str, body: dict[str, Any]) -> None:
    """Create an index unless it exists."""
    try:
        await client.indices.create(index=index, **body)
    except BadRequestError as error:
        if error.error != "resource_already_exists_exception":
            raise


async def read_mark(client: AsyncElasticsearch, control_index: str, alias: str) -> Mark | None:
    """Return the mark of a resource, or None before its first build."""
    try:
        response = await client.get(index=control_index, id=mark_id(alias))
    except NotFoundError:
        return None
    return msgspec.convert(response["_source"], Mark)


async def publish_mark(
    client: AsyncElasticsearch, control_index: str, alias: str, mark: Mark, *, holder: int = 0, **condition: Any
) -> dict[str, Any]:
    """Write the mark of a resource and return the response. Call it only after the refresh and the alias swap.

    `condition` is the compare-and-set condition, which keeps marks from going back. `holder` is the token of the lock.
    Raises the client's ConflictError if another process has written the mark.
    """
    document = msgspec.to_builtins(mark) | {"holder": holder}
    response = await client.index(index=control_index, id=mark_id(alias), document=document, refresh=True, **condition)
    return dict(response)
