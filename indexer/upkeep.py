"""Looking after what is there: rollback and pruning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.bulk import Sender, Terms
from indexer.catch_up import replay, restamp
from indexer.checkpoint import Checkpoint
from indexer.clocks import baseline
from indexer.errors import RefusedError, engine_errors
from indexer.events import tell
from indexer.fence import put_up
from indexer.lifecycle import Generations, Lifecycle
from indexer.lock import locked, say_nothing
from indexer.pace import Pace
from indexer.tombstones import expired, forget
from indexer.writer import writing
from mappings import RESOURCES
from mappings.index import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable

    from indexer.engine import Engine
    from indexer.writer import Writer
    from mappings import Resource


async def previous(engine: Engine, resource: Resource) -> tuple[str, str]:
    """Return the live generation and the one that a rollback would bring back; raise RefusedError without one."""
    with engine_errors():
        return _step_back(await Lifecycle(engine, resource).generations(), resource)


async def rollback(engine: Engine, resource: Resource, on_wait: Callable[[str], None] = say_nothing) -> str:
    """Bring back the generation that the live one replaced, with every update since the swap, and return its name.

    The mark's epoch rises, since records then are as they were before. Raises RefusedError, EngineError or LockedError.
    """
    control, seconds = engine.connection.control_index, engine.settings.lock_wait_seconds
    with engine_errors():
        async with (
            locked(engine.client, control, wait_seconds=seconds, on_wait=on_wait) as lock,
            writing(engine, resource, on_wait) as writer,
        ):
            lifecycle = writer.lifecycle
            present = await lifecycle.generations()
            live, target = _step_back(present, resource)
            fence = await put_up(engine, f"{lifecycle.alias}-builder", lock.token, target)
            await _bring_up(writer, target, fence, built_to=present.metas[live].get("built_to"))
            mark = writer.stamps.published(target, epoch=writer.stamps.mark.epoch + 1)
            await lifecycle.swap(target, live, {writer.fence: live, fence: target})
            await writer.release_mark(mark)
            await tell(engine)
            return target


async def _bring_up(writer: Writer, target: str, fence: str, *, built_to: int | None) -> None:
    """Replay into the earlier generation what the live one was told after its swap, and stamp above all it holds."""
    engine = writer.engine
    if built_to is not None:
        sender = Sender(
            engine.client, fence, Pace(engine.settings), engine.settings, Terms(replaces_equal=True, require_alias=True)
        )
        await replay(engine, writer.live, built_to, sender, target)
        await writer.lifecycle.refresh(target)
        await restamp(engine, target, writer, sender)
    await writer.lifecycle.refresh(target)
    # What came too late for the live generation was kept in this one, under stamps that no mark covers yet.
    held = await baseline(engine.client, [target], writer.stamps.mark)
    writer.stamps.clock, writer.stamps.sequence = held.clock, held.sequence


def _step_back(present: Generations, resource: Resource) -> tuple[str, str]:
    if len(present.history) < 2:
        raise RefusedError(f"{resource.alias} has no earlier generation to roll back to.")
    live, target = present.history[:2]
    if present.fingerprint(target) != fingerprint(resource):
        raise RefusedError(
            f"{target} has another shape than this program declares: it can neither be served nor take the updates "
            f"that {live} has had. Roll back with the program that built it, or rebuild."
        )
    return live, target


async def superfluous(engine: Engine) -> tuple[list[str], int]:
    """Return the indices that pruning would delete, of every resource, and how many tombstones."""
    with engine_errors():
        names, tombstones = list[str](), 0
        for lifecycle in [Lifecycle(engine, resource) for resource in RESOURCES]:
            present = await lifecycle.generations()
            names += lifecycle.superfluous(present)
            tombstones += await lifecycle.count(present.live, expired(engine)) if present.live else 0
        return names, tombstones


async def prune(engine: Engine, on_wait: Callable[[str], None] = say_nothing) -> tuple[list[str], int]:
    """Delete what is superfluous and return names and number of tombstones; raise EngineError or LockedError."""
    with engine_errors():
        seconds, names, tombstones = engine.settings.lock_wait_seconds, list[str](), 0
        control = engine.connection.control_index
        async with locked(engine.client, control, wait_seconds=seconds, on_wait=on_wait) as lock:
            for resource in RESOURCES:
                lifecycle = Lifecycle(engine, resource)
                await lock.verify()
                deleted = await lifecycle.prune(await lifecycle.generations())
                await _forget_build(engine, lifecycle.alias, deleted)
                names += deleted
                tombstones += await forget(engine, resource, on_wait)
        await tell(engine)
        return names, tombstones


async def _forget_build(engine: Engine, alias: str, deleted: list[str]) -> None:
    """Clear the checkpoint of a build whose candidate is gone."""
    checkpoint = Checkpoint(engine, alias)
    progress = await checkpoint.read()
    if progress is not None and progress.candidate in deleted:
        await checkpoint.clear()
