"""The right to change what is live of one resource: a lock, a fence that the engine itself keeps, and stamps.

Whoever takes the lock over moves the fence, so that a writer which was only asleep finds its target gone: nothing of it
arrives behind a mark that is published.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import structs

from indexer.bulk import Sender, Terms
from indexer.clocks import Stamps, baseline
from indexer.departures import make_up
from indexer.errors import RefusedError
from indexer.fence import lift, put_up
from indexer.lifecycle import Lifecycle
from indexer.lock import Lock, locked
from indexer.marks import MarkKeeper
from indexer.scan import last_written
from indexer.tasks import settled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from cluster.control import Mark
    from indexer.engine import Engine
    from indexer.lifecycle import Generations
    from indexer.pace import Pace
    from mappings import Resource

# Longer than a bulk request may take.
_SETTLED_SECONDS = 120.0


@dataclass(frozen=True)
class Writer:
    """What a holder of the right needs: the live index, the way into it, and the stamps of this holding.

    `previous` is the generation that a rollback would bring back, if it is kept and has the shape of today.
    """

    engine: Engine
    lifecycle: Lifecycle
    lock: Lock
    live: str
    fence: str
    stamps: Stamps
    previous: str | None
    mark: MarkKeeper

    def sender(self, pace: Pace) -> Sender:
        """Return a sender that only writes while the fence stands; of equal versions the one sent last stays."""
        terms = Terms(replaces_equal=True, require_alias=True, opaque_id=self.lock.opaque_id)
        return Sender(self.engine.client, self.fence, pace, self.engine.settings, terms)

    async def publish(self) -> None:
        """Make what was written visible, then publish the mark; raise LockedError where the lock was lost."""
        mark = self.stamps.published(self.live)
        await self.lifecycle.refresh(self.live)
        await self.lock.verify()
        await self.release_mark(mark)

    async def forget(self, sequence: int) -> None:
        """Publish that tombstones up to `sequence` may be gone, before any of them is; raise as `publish`."""
        if sequence > self.stamps.mark.forgotten:
            self.stamps.forget(sequence)
            await self.publish()

    async def release_mark(self, mark: Mark) -> None:
        """Publish a mark that was taken before the last refresh, or before the swap.

        Whoever took the lock over since then has claimed the mark: this raises LockedError.
        """
        await self.mark.publish(mark)


@asynccontextmanager
async def writing(engine: Engine, resource: Resource, on_wait: Callable[[str], None]) -> AsyncIterator[Writer]:
    """Hold the right to change a resource's live generation; raise RefusedError where there is none."""
    lifecycle = Lifecycle(engine, resource)
    async with locked(
        engine.client,
        engine.connection.control_index,
        f"write-{lifecycle.alias}",
        wait_seconds=engine.settings.write_wait_seconds,
        on_wait=on_wait,
    ) as lock:
        writer = await _admitted(engine, lifecycle, lock)
        try:
            yield writer
        finally:
            await lift(engine, writer.live, writer.fence)


async def _admitted(engine: Engine, lifecycle: Lifecycle, lock: Lock) -> Writer:
    """Put up the fence, and let everything that an earlier holder has sent arrive before the stamps begin.

    What it had begun and not published is made up for.
    """
    live, fence = await _fenced(engine, lifecycle, lock.token)
    if lock.inherited is not None:
        await settled(engine.client, lock.inherited, _SETTLED_SECONDS)
    await last_written(engine, live)
    keeper, present = MarkKeeper(engine, lifecycle.alias, lock.token), await lifecycle.generations()
    mark = await keeper.claim()
    kept = present.history[: engine.settings.kept_generations]
    previous = [index for index in kept[1:2] if present.fingerprint(index) == lifecycle.fingerprint]
    for index in previous:  # what came too late may have been stamped there, and never published
        await lifecycle.refresh(index)
    stamps = Stamps(await baseline(engine.client, [live, *previous], _resumed(mark, present)))
    writer = Writer(engine, lifecycle, lock, live, fence, stamps, previous[0] if previous else None, keeper)
    if stamps.sequence > (published := mark.sequence if mark else 0):
        await make_up(writer, published)
    if mark is not None and stamps.mark.epoch > mark.epoch:
        await writer.publish()
    return writer


def _resumed(mark: Mark | None, present: Generations) -> Mark | None:
    """Return the mark to go on from: in another epoch where what is live has not replaced what the mark is of.

    So it is where a rollback died behind its swap, or the first build after a loss: the mark was to follow.
    """
    if mark is None or mark.generation in present.history:
        return mark
    return structs.replace(mark, epoch=mark.epoch + 1)


async def _fenced(engine: Engine, lifecycle: Lifecycle, token: int) -> tuple[str, str]:
    """Return the live index and its fence. An earlier holder may have swapped in the moment before its fence fell."""
    live, seen = await lifecycle.live(), None
    while live is not None and live != seen:
        fence = await put_up(engine, f"{lifecycle.alias}-writer", token, live)
        seen, live = live, await lifecycle.live()
    if live is None:
        raise RefusedError(f"{lifecycle.alias} was never built: load it once with `brokerage index reindex`.")
    return live, fence


async def first_mark(keeper: MarkKeeper, engine: Engine, generation: str) -> Mark:
    """Return the mark of the first generation of all, whose stamps are the source's; to be taken before its swap.

    Where there was another before it, which is gone, places in its sequence are void.
    """
    known = await keeper.read()
    epoch = 0 if known is None else known.epoch + 1
    return Stamps(await baseline(engine.client, [generation], known)).published(generation, epoch=epoch)
