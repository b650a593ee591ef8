"""Fences: aliases through which one lock holder writes, and which it loses together with the lock.

A process may sleep through the loss of its lock and then resume. Elasticsearch rejects what it sends to its alias
after another run has moved the fence, and also a swap that has to remove the fence.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from elasticsearch import ApiError, NotFoundError, TransportError

from indexer.errors import ElasticsearchError, LockedError
from indexer.indices.backoff import retry
from indexer.lock.bulk_tasks import wait_for_bulk_tasks

if TYPE_CHECKING:
    from indexer.context import IndexerContext
    from indexer.lock.distributed_lock import DistributedLock


_HOSTS_SUFFIX = "-hosts"


async def create_fence(context: IndexerContext, family: str, token: int, index: str) -> str:
    """Let only the holder of `token` write into `index` from now on, and return the alias to write through.

    Aliases of earlier holders of the same family are removed in the same request.
    """
    fence = f"{family}-{token}"
    removals: list[dict[str, Any]] = [
        {"remove": {"index": holder, "alias": alias}}
        for holder, alias in await _aliases(context, f"{family}-*")
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


async def open_to_hosts(context: IndexerContext, index: str, fence: str) -> str:
    """Let other hosts write into a candidate, too, through an alias of their own; return it.

    It is created only while the builder's own fence is there, in one request: after another run has moved that fence,
    it cannot appear any more. Raises LockedError if it was moved.
    """
    hosts = f"{fence}{_HOSTS_SUFFIX}"
    actions: list[dict[str, Any]] = [
        {"remove": {"index": index, "alias": fence, "must_exist": True}},
        {"add": {"index": index, "alias": fence}},
        {"add": {"index": index, "alias": hosts}},
    ]
    try:
        await retry(partial(context.client.indices.update_aliases, actions=actions), context.settings.retry_seconds)
    except NotFoundError:
        raise LockedError(f"Another run has taken over the build of {index}.") from None
    return hosts


def hosts_opaque_id(index: str) -> str:
    """Return the X-Opaque-Id of all requests by which hosts write into a candidate, whichever run they help."""
    return f"brokerage-hosts-{index}"


async def close_to_hosts(context: IndexerContext, alias: str, index: str) -> None:
    """Let no other host write into a candidate any more; the caller holds its fence.

    Elasticsearch refuses what it begins to process once all nodes know that the aliases are removed, and what it was
    processing before is listed as a task until it has ended. Raises ElasticsearchError if that cannot be established.
    """
    found = await _aliases(context, f"{alias}-builder-*{_HOSTS_SUFFIX}")
    actions = [{"remove": {"index": holder, "alias": hosts, "must_exist": False}} for holder, hosts in found]
    if actions:
        update = partial(context.client.indices.update_aliases, actions=actions)
        response = await retry(update, context.settings.retry_seconds)
        if not response["acknowledged"]:
            raise ElasticsearchError(f"Not all nodes have confirmed that no other host writes into {index}: try again.")
    await wait_for_bulk_tasks(context.client, hosts_opaque_id(index), context.settings.retry_seconds)


async def _aliases(context: IndexerContext, pattern: str) -> list[tuple[str, str]]:
    """Return the index and the name of each alias that matches a pattern."""
    read = partial(context.client.indices.get_alias, index="*", name=pattern)
    existing = await retry(read, context.settings.retry_seconds)
    return [(index, alias) for index, body in existing.items() for alias in body["aliases"]]


async def remove_fence(context: IndexerContext, index: str, fence: str) -> None:
    """Remove a fence. It may be gone already: moved by the next holder, or removed by a swap."""
    action = {"remove": {"index": index, "alias": fence}}
    with suppress(ApiError, TransportError):
        await context.client.indices.update_aliases(actions=[action])
