"""Fences: aliases through which one lock holder writes, and which it loses together with the lock.

A process may sleep through the loss of its lock and then resume. Elasticsearch rejects what it sends to its alias
after another run has moved the fence, and also a swap that has to remove the fence.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from elasticsearch import ApiError, TransportError

from indexer.indices.backoff import retry

if TYPE_CHECKING:
    from indexer.context import IndexerContext


async def create_fence(context: IndexerContext, family: str, token: int, index: str) -> str:
    """Let only the holder of `token` write into `index` from now on, and return the alias to write through.

    Aliases of earlier holders of the same family are removed in the same request.
    """
    fence = f"{family}-{token}"
    existing = await context.client.indices.get_alias(index="*", name=f"{family}-*")
    removals: list[dict[str, Any]] = [
        {"remove": {"index": holder, "alias": alias}}
        for holder, body in existing.items()
        for alias in body["aliases"]
        if alias.removeprefix(f"{family}-").isdecimal() and (holder, alias) != (index, fence)
    ]
    actions = [{"add": {"index": index, "alias": fence}}, *removals]
    await retry(partial(context.client.indices.update_aliases, actions=actions), context.settings.retry_seconds)
    return fence


async def builder_fence(context: IndexerContext, alias: str, token: int, index: str) -> str:
    """Let only the builder with `token` write into a candidate, and return the alias to write through."""
    return await create_fence(context, f"{alias}-builder", token, index)


async def remove_fence(context: IndexerContext, index: str, fence: str) -> None:
    """Remove a fence. It may be gone already: moved by the next holder, or removed by a swap."""
    action = {"remove": {"index": index, "alias": fence}}
    with suppress(ApiError, TransportError):
        await context.client.indices.update_aliases(actions=[action])
