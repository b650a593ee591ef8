"""Applies drafts to what is live of one resource: looked up, stamped, written, made visible, marked, in that order."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from indexer.bulk import Sender, Write
from indexer.errors import LockedError
from indexer.fate import Fate, fate
from indexer.scan import Row, look_up
from indexer.writer import writing
from mappings.document import feed_key

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from indexer.clocks import Stamp
    from indexer.documents import Draft
    from indexer.engine import Engine
    from indexer.pace import Pace
    from indexer.writer import Writer
    from mappings import Resource

# Losing the lock this often in a row is no accident.
_ATTEMPTS = 3
# Time for one who waits for the lock to take it, before it is taken again.
_LOOKS, _LOOK_SECONDS = 20, 0.25


@dataclass
class Outcome:
    """What became of some drafts. `refused` are those that the engine would not take, each with its reason."""

    indexed: int = 0
    unchanged: int = 0
    stale: int = 0
    refused: list[tuple[Draft, str]] = field(default_factory=list)


class Desk:
    """Holds the right to write for as long as nobody else wants it, and takes it again when there is more to do."""

    def __init__(self, engine: Engine, resource: Resource, pace: Pace, on_wait: Callable[[str], None]) -> None:
        """Nothing is locked yet."""
        self._engine = engine
        self.alias = engine.connection.alias(resource)
        self._resource = resource
        self._pace = pace
        self._on_wait = on_wait
        self._holding = AsyncExitStack()
        self._writer: Writer | None = None
        self._written: dict[str, Row] = {}  # since the last refresh, which a search does not see yet
        self._unpublished: dict[str, Draft] = {}  # those of them that have new stamps
        self._lost: dict[str, Draft] = {}

    async def apply(self, drafts: dict[str, Draft]) -> Outcome:
        """Write drafts, one a record, wherever they are newer than what is known.

        A lock that is lost on the way is taken again, and everything unpublished is stamped anew.
        """
        anew: set[str] = set()
        for _ in range(_ATTEMPTS):
            writer = await self._opened()
            lost, self._lost = self._lost, {}
            anew |= lost.keys()
            try:
                await self._write(writer, [draft for draft in lost.values() if draft.id not in drafts], anew)
                return await self._write(writer, drafts.values(), anew)
            except LockedError:
                self._lost = {**lost, **self._unpublished}
                anew |= drafts.keys()
                await self.rest()
        raise LockedError(f"The lock of {self._resource.alias} was lost {_ATTEMPTS} times: nothing more was written.")

    async def _opened(self) -> Writer:
        if self._writer is None:
            writing_now = writing(self._engine, self._resource, self._on_wait)
            self._writer = await self._holding.enter_async_context(writing_now)
        return self._writer

    async def rest(self) -> None:
        """Let go of the lock until there is more to do."""
        self._writer, holding = None, self._holding
        self._holding, self._written, self._unpublished = AsyncExitStack(), {}, {}
        await holding.aclose()

    async def _write(self, writer: Writer, drafts: Iterable[Draft], anew: Container[str]) -> Outcome:
        """Write what is newer than what is known; of `anew`, also what is known, under a new stamp."""
        outcome, writes, rows = Outcome(), list[Write](), dict[str, Row]()
        stale: list[Draft] = []
        known = await self._known(writer, [draft.id for draft in drafts])
        for draft in drafts:
            row = known.get(draft.id)
            is_here = row is not None and (row.version, row.content) == (draft.version, draft.content)
            if (fated := Fate.FRESH if is_here and draft.id in anew else fate(draft, row)) is Fate.STALE:
                stale.append(draft)
                continue
            outcome.indexed += fated is Fate.FRESH
            outcome.unchanged += fated is Fate.UNCHANGED
            if fated is Fate.FRESH or not is_here:
                stamp = writer.stamps.give(draft, fated, row)
                rows[draft.id] = _row(draft, stamp)
                writes.append(Write(draft.id, draft.version, draft.source(*stamp), draft))
                if fated is Fate.FRESH:
                    self._unpublished[draft.id] = draft
        outcome.stale = len(stale)
        await self._send(writer, writes, outcome)
        await self._keep(writer, stale)
        for draft, _ in outcome.refused:
            del rows[draft.id]
        self._written |= rows
        return outcome

    async def _known(self, writer: Writer, identifiers: list[str]) -> dict[str, Row]:
        if not identifiers:
            return {}
        return {**await look_up(self._engine, writer.live, identifiers), **self._written}

    async def _send(self, writer: Writer, writes: list[Write], outcome: Outcome) -> None:
        verdict = await writer.sender(self._pace).send(writes)
        outcome.refused = [(write.draft, reason) for write, reason in verdict.refused if write.draft is not None]
        for write, _ in verdict.refused:
            if self._unpublished.pop(write.id, None) is None:
                outcome.unchanged -= 1
            else:
                outcome.indexed -= 1

    async def _keep(self, writer: Writer, stale: list[Draft]) -> None:
        """Write what came too late into the generation that a rollback would bring back: there it may be the newest."""
        if writer.previous is not None and stale:
            sender = Sender(self._engine.client, writer.previous, self._pace, self._engine.settings)
            fresh = writer.stamps.fresh
            await sender.send([Write(draft.id, draft.version, draft.source(*fresh()), draft) for draft in stale])

    async def publish(self) -> bool:
        """Make what was written visible and publish the mark; then let go where another run waits for the lock.

        Return whether there was anything to publish.
        """
        if self._writer is None or not self._written:
            return False
        try:
            await self._writer.publish()
        except LockedError:
            self._lost = {**self._lost, **self._unpublished}
            await self.rest()
            await self.apply({})
            return await self.publish()
        self._written, self._unpublished = {}, {}
        await self._give_way(self._writer)
        return True

    async def _give_way(self, writer: Writer) -> None:
        if not await writer.lock.is_wanted():
            return
        await self.rest()
        for _ in range(_LOOKS):
            await asyncio.sleep(_LOOK_SECONDS)
            if not await writer.lock.is_wanted():
                break


def _row(draft: Draft, stamp: Stamp) -> Row:
    """Return what a look-up will find once the draft is visible."""
    return Row(
        id=draft.id,
        feed_key=feed_key(draft.company, draft.id),
        version=draft.version,
        content=draft.content,
        clock=stamp[0],
        sequence=stamp[1],
        deleted=draft.is_tombstone,
        reason=None,
    )
