"""Fences: aliases through which one lock holder writes, and which it loses together with the lock.

A process may sleep through the loss of its lock and then resume. Elasticsearch rejects what it sends to its alias
after another run has moved the fence, and also a swap that has to remove the fence.
"""

from contextlib import suppress
from functools import partial
from typing import Any

from elasticsearch import ApiError, TransportError

from indexer.context import IndexerContext
from indexer.indices.backoff import retry
from indexer.lock.bulk_tasks import wait_for_bulk_tasks
from indexer.lock.distributed_lock import DistributedLock


async def create_fence(context: IndexerContext, family: str, token: int, index: str) -> str:
    """Let only the holder of `token` write into `index` from now on, and return the alias to write through.

    Aliases of earlier holders of the same family are removed in the same request.
    """
    fence = f"{family}-{token}"
    read = partial(context.client.indices.get_alias, index="*", name=f"{family}-*")
    existing = await retry(read, context.settings.retry_seconds)
    removals: list[dict[str, Any]] = [
        {"remove": {"index": holder, "alias": alias}}
        for holder, body in existing.items()
        for alias in body["aliases"]
        if alias.removeprefix(f"{family}-").isdecimal() and (holder, alias) != (index, fence)
    ]
    actions = [{"add": {"index": index, "alias": fence}}, *removals]
    await retry(partial(context.client.indices.update_aliases, actions=actions), context.settings.retry_seconds)
    return fence


async def builder_fence(context: IndexerContext, alias: str, lock: DistributedLock, index: str) -> str:
    """Let only the holder of the lock build in `index`, and return the alias to write through.

    Raises LockedError if another run has taken over.
    """
    fence = await create_fence(context, f"{alias}-builder", lock.token, index)
    await require_sole_writer(context, lock, context.settings.retry_seconds)
    return fence


async def require_sole_writer(context: IndexerContext, lock: DistributedLock, seconds: float) -> None:
    """Return once only the holder of the lock writes through the fence that it has just created.

    What a killed run has sent before has ended by then: its stamps could replace those that are assigned from now on.
    Raises LockedError if another run has taken over: one that did so before the fence existed has not moved it. Raises
    ElasticsearchError if requests of the killed run are still running after `seconds`.
    """
    await lock.verify()
    if lock.taken_over_from is not None:
        await wait_for_bulk_tasks(context.client, lock.taken_over_from, seconds)


async def remove_fence(context: IndexerContext, index: str, fence: str) -> None:
    """Remove a fence. It may be gone already: moved by the next holder, or removed by a swap."""
    action = {"remove": {"index": index, "alias": fence}}
    with suppress(ApiError, TransportError):
        await context.client.indices.update_aliases(actions=[action])
