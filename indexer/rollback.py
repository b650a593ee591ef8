"""Rollback to the generation that the live one replaced."""

from collections.abc import Callable

from indexer.after_publish import after_run
from indexer.bulk import BulkOptions, bulk_sender
from indexer.changes.replay import ReplayOrigin, assign_pending_stamps, replay
from indexer.changes.stamps import baseline_mark
from indexer.changes.write_session import open_write_session
from indexer.control import read_identity
from indexer.errors import RefusedError, translate_client_errors
from indexer.generations.lifecycle import GenerationLifecycle, Generations, StoredSeqNos, read_seq_nos
from indexer.lock import builder_fence, ignore_wait, open_run
from indexer.settings import IndexerContext
from mappings import Resource
from mappings.indices import schema_fingerprint


async def rollback_target(context: IndexerContext, resource: Resource) -> tuple[str, str]:
    """Return the live generation and the rollback target; raise RefusedError if there is no target."""
    with translate_client_errors():
        return _target(await GenerationLifecycle(context, resource).generations(), resource)


async def rollback(context: IndexerContext, resource: Resource, on_wait: Callable[[str], None] = ignore_wait) -> str:
    """Bring back the generation that the live one replaced, with all updates since the swap, and return its name.

    A new epoch begins, because records revert to earlier states. Raises RefusedError, ElasticsearchError or
    LockedError.
    """
    target = await _roll_back(context, resource, on_wait)
    await after_run(context)
    return target


async def _roll_back(context: IndexerContext, resource: Resource, on_wait: Callable[[str], None]) -> str:
    async with open_run(context, on_wait) as lock, open_write_session(context, resource, on_wait) as session:
        lifecycle, stamps = session.lifecycle, session.stamps
        present = await lifecycle.generations()
        live, target = _target(present, resource)
        # From now on this run alone writes to the target, and no update to the live generation.
        fence, ranges = await builder_fence(context, lifecycle.alias, lock, target), present.ranges(target)
        options = BulkOptions(replaces_equal=True, require_alias=True, opaque_id=lock.opaque_id, ranges=ranges)
        sender = bulk_sender(context, fence, options)
        stamps.begin_epoch(latest_mark=0)  # the mark of the session is the latest
        # The target gets the updates of the live generation since its swap.
        built_to: StoredSeqNos | None = present.metas[live].get("built_to")
        if built_to is not None:
            await replay(context, resource, ReplayOrigin(live, read_seq_nos(built_to)), sender, target)
            await lifecycle.refresh(target)
            await assign_pending_stamps(context, target, session, sender)
        await lifecycle.refresh(target)
        # Updates that were stale for the live generation were written to this one, above every published mark.
        baseline = await baseline_mark(context, [target], stamps.mark)
        stamps.clock, stamps.sequence = baseline.clock, baseline.sequence
        mark = stamps.next_mark(target, await read_identity(context, target))
        await lifecycle.update_meta(target, succeeds=session.identity)
        await lifecycle.swap(target, live, {session.fence: live, fence: target})
        await session.publish_mark(mark)
        return target


def _target(present: Generations, resource: Resource) -> tuple[str, str]:
    if len(present.history) < 2:
        raise RefusedError(f"{resource.alias} has no earlier version to roll back to.")
    live, target = present.history[:2]
    if present.fingerprint(target) != schema_fingerprint(resource):
        raise RefusedError(
            f"{target} has a different schema than this program declares: it can neither be served nor take the "
            f"updates of {live}. Roll back with the program that built it, or rebuild."
        )
    return live, target
