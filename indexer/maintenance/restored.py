"""A new life of the data after a restore, so that consumers start again from what is there (decision 18)."""

from collections.abc import Callable, Sequence

from indexer.changes.write_session import open_write_session
from indexer.context import IndexerContext
from indexer.control.event_ledger import publish_events, renumber_events
from indexer.errors import RefusedError, translate_client_errors
from indexer.indices.lifecycle import GenerationLifecycle
from indexer.lock.distributed_lock import ignore_wait
from mappings import RESOURCES, Resource


async def begin_new_lives(
    context: IndexerContext,
    resources: Sequence[Resource] = RESOURCES,
    on_wait: Callable[[str], None] = ignore_wait,
) -> list[str]:
    """Begin a new life of each loaded resource and return their aliases.

    Tokens and event numbers from before are void, and readers by time read everything once more. Raises
    ElasticsearchError, LockedError, or RefusedError if nothing is loaded.
    """
    with translate_client_errors():
        loaded = [each for each in resources if await GenerationLifecycle(context, each).live() is not None]
        if not loaded:
            raise RefusedError("Nothing is loaded: restore the indices first, or load them with `index reindex`.")
        for resource in loaded:
            async with open_write_session(context, resource, on_wait) as session:
                await session.begin_life()
        await renumber_events(context)
        await publish_events(context)
        return [resource.alias for resource in loaded]
