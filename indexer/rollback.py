"""Rollback to the generation that the live one replaced."""

from collections.abc import Callable

from indexer.bulk import AdaptiveLimit, BulkOptions, BulkSender
from indexer.changes.replay import ReplayOrigin, assign_pending_stamps, replay
from indexer.changes.stamps import baseline_mark
from indexer.changes.write_session import WriteSession, open_write_session
from indexer.control import publish_events, read_identity
from indexer.errors import RefusedError, translate_client_errors
from indexer.generations.lifecycle import GenerationLifecycle, Generations, StoredSeqNos, read_seq_nos
from indexer.lock import DistributedLock, acquire_lock, builder_fence, ignore_wait
from indexer.settings import IndexerContext
from mappings import Resource
from mappings.indices import schema_fingerprint


async def rollback_target(context: IndexerContext, resource: Resource) -> tuple[str, str]:
    """Return the live generation and the rollback target; raise RefusedError if there is no target."""
    with translate_client_errors():
        return _target(await GenerationLifecycle(context, resource).generations(), resource)


async def rollback(context: IndexerContext, resource: Resource, on_wait: Callable[[str], None] = ignore_wait) -> str:
    """Bring back the generation that the live one replaced, with all updates since the swap, and return its name.

    A new life begins, because records revert to earlier states. Raises RefusedError, ElasticsearchError or
    LockedError.
    """
    control, seconds = context.connection.control_index, context.settings.lock_wait_seconds
    with translate_client_errors():
        async with (
            acquire_lock(context.client, control, wait_seconds=seconds, on_wait=on_wait) as lock,
            open_write_session(context, resource, on_wait) as session,
        ):
            lifecycle = session.lifecycle
            present = await lifecycle.generations()
            live, target = _target(present, resource)
            fence = await builder_fence(context, lifecycle.alias, lock, target)
            session.stamps.begin_life(latest_mark=0)  # that of the session is the latest
            sender = await _sender(session, lock, fence, target)
            await _catch_up(session, resource, target, sender, built_to=present.metas[live].get("built_to"))
            mark = session.stamps.next_mark(target, await read_identity(context, target))
            await lifecycle.update_meta(target, succeeds=session.identity)
            await lifecycle.swap(target, live, {session.fence: live, fence: target})
            await session.publish_mark(mark)
            await publish_events(context)
            return target


async def _sender(session: WriteSession, lock: DistributedLock, fence: str, target: str) -> BulkSender:
    """Return a sender that writes to the target only while the fence exists."""
    ranges, settings = await session.lifecycle.ranges(target), session.context.settings
    options = BulkOptions(replaces_equal=True, require_alias=True, opaque_id=lock.opaque_id, ranges=ranges)
    return BulkSender(session.context.client, fence, AdaptiveLimit(settings), settings, options)


async def _catch_up(
    session: WriteSession, resource: Resource, target: str, sender: BulkSender, *, built_to: StoredSeqNos | None
) -> None:
    """Replay the updates of the live generation since its swap into the target, and set the stamps above all it has."""
    context = session.context
    if built_to is not None:
        await replay(context, resource, ReplayOrigin(session.live, read_seq_nos(built_to)), sender, target)
        await session.lifecycle.refresh(target)
        await assign_pending_stamps(context, target, session, sender)
    await session.lifecycle.refresh(target)
    # Updates that were stale for the live generation were written to this one, above every published mark.
    baseline = await baseline_mark(context, [target], session.stamps.mark)
    session.stamps.clock, session.stamps.sequence = baseline.clock, baseline.sequence


def _target(present: Generations, resource: Resource) -> tuple[str, str]:
    if len(present.history) < 2:
        raise RefusedError(f"{resource.alias} has no earlier generation to roll back to.")
    live, target = present.history[:2]
    if present.fingerprint(target) != schema_fingerprint(resource):
        raise RefusedError(
            f"{target} has a different schema than this program declares: it can neither be served nor take the "
            f"updates of {live}. Roll back with the program that built it, or rebuild."
        )
    return live, target
