"""A copy of a live generation that Elasticsearch makes from hard links: its cost does not grow with the records.

Elasticsearch copies only what cannot be written meanwhile. The block is noted in the `_meta` of the live index before
it is set, so that the next run lifts a block whose run was killed.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from indexer.context import IndexerContext
from indexer.errors import ElasticsearchError
from indexer.indices.backoff import retry
from indexer.indices.lifecycle import GenerationLifecycle
from mappings import Resource
from mappings.index_body import BLOCK_NOTE, BLOCK_SETTING, index_body

# Until its replica is due, a copy has none: it would be copied once more.
_SETTINGS = {
    BLOCK_SETTING: None,
    "index.number_of_replicas": 0,
    "index.auto_expand_replicas": False,
    "index.refresh_interval": "-1",
}


async def copy_live(
    context: IndexerContext, resource: Resource, lifecycle: GenerationLifecycle, live: str, copy: str
) -> None:
    """Copy the live generation under another name, with all its records, versions and stamps.

    The caller holds the write lock: writes to the live index are refused for a moment. Raises ElasticsearchError if
    the copy cannot be placed on the node of the original.
    """
    seconds = context.settings.green_seconds
    client = context.client.options(ignore_status=408)
    async with _blocked_writes(context, lifecycle, live, copy):
        await context.client.indices.clone(index=live, target=copy, settings=_SETTINGS)
        health = await client.cluster.health(index=copy, wait_for_status="yellow", timeout=f"{seconds}s")
    if health["status"] == "red":
        raise ElasticsearchError(
            f"{live} cannot be copied to {copy}: its node takes no other index: free disk space there."
        )
    body: dict[str, Any] = index_body(resource, await lifecycle.ranges(live))
    meta = body["mappings"]["_meta"] | {"replaces": live}
    await context.client.indices.put_mapping(index=copy, meta=meta)


@asynccontextmanager
async def _blocked_writes(
    context: IndexerContext, lifecycle: GenerationLifecycle, live: str, copy: str
) -> AsyncIterator[None]:
    await lifecycle.update_meta(live, **{BLOCK_NOTE: copy})
    try:
        await context.client.indices.add_block(index=live, block="write")
        yield
    finally:
        await _lift(context, lifecycle, live)


async def lift_left_block(
    context: IndexerContext, lifecycle: GenerationLifecycle, live: str, meta: Mapping[str, Any]
) -> None:
    """Lift the block of a run that was killed while it copied the live generation; the caller holds the write lock."""
    if meta.get(BLOCK_NOTE):
        await _lift(context, lifecycle, live)


async def _lift(context: IndexerContext, lifecycle: GenerationLifecycle, live: str) -> None:
    put = context.client.indices.put_settings
    await retry(lambda: put(index=live, settings={BLOCK_SETTING: None}), context.settings.retry_seconds)
    await lifecycle.update_meta(live, **{BLOCK_NOTE: None})
