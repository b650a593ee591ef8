"""The control index: small documents by which indexer and service agree on what is published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from elasticsearch import BadRequestError, NotFoundError

if TYPE_CHECKING:
    from elasticsearch import AsyncElasticsearch

CONTROL_BODY: dict[str, Any] = {
    "settings": {"index.number_of_shards": 1, "index.auto_expand_replicas": "0-1"},
    "mappings": {"dynamic": False},
}


class Mark(msgspec.Struct, frozen=True):
    """What the indexer has published of a resource: everything stamped up to here is visible to searches.

    `clock` is milliseconds since 1970, `sequence` counts changes, `epoch` counts rollbacks, `generation` names the
    index. Everything stamped later is stamped above both.

    `forgotten` is the highest sequence of any tombstone that is no longer kept: who has read less far may have missed
    it. It is published before the first of these is gone.
    """

    clock: int
    sequence: int
    epoch: int
    generation: str
    forgotten: int = 0


def mark_id(alias: str) -> str:
    """Return the id of the document that holds the mark of an alias."""
    return f"mark-{alias}"


async def ensure_index(client: AsyncElasticsearch, index: str, body: dict[str, Any]) -> None:
    """Create an index unless it is there."""
    try:
        await client.indices.create(index=index, **body)
    except BadRequestError as error:
        if error.error != "resource_already_exists_exception":
            raise


async def read_mark(client: AsyncElasticsearch, control_index: str, alias: str) -> Mark | None:
    """Return the mark of a resource's alias, or None before its first build."""
    try:
        answer = await client.get(index=control_index, id=mark_id(alias))
    except NotFoundError:
        return None
    return msgspec.convert(answer["_source"], Mark)


async def publish_mark(
    client: AsyncElasticsearch, control_index: str, alias: str, mark: Mark, *, holder: int = 0, **condition: Any
) -> dict[str, Any]:
    """Write the mark of a resource's alias and return the answer. Only after a successful refresh, and the swap.

    `condition` is that of writing over what is there: by it no mark steps back. `holder` is the token of the lock.
    Raises the client's ConflictError where another has written it.
    """
    document = msgspec.to_builtins(mark) | {"holder": holder}
    answer = await client.index(index=control_index, id=mark_id(alias), document=document, refresh=True, **condition)
    return dict(answer)
