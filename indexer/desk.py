"""Applies drafts to what is live of one resource: looked up, stamped, written, made visible, marked, in that order."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from indexer import departures
from indexer.bulk import Sender, Write
from indexer.errors import LockedError
from indexer.fate import Fate, fate
from indexer.outcome import Due, Outcome
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
        self._leaving: set[str] = set()  # records that have a departure, and may not have come anywhere
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
        self._holding, self._written, self._unpublished, self._leaving = AsyncExitStack(), {}, {}, set()
        await holding.aclose()

    async def _write(self, writer: Writer, drafts: Iterable[Draft], anew: Container[str]) -> Outcome:
        """Write what is newer than what is known; of `anew`, also what is known, under a new stamp."""
        outcome, due = Outcome(), list[Due]()
        stale: list[Draft] = []
        known = await self._known(writer, [draft.id for draft in drafts])
        for draft in drafts:
            row = known.get(draft.id)
            is_here = row is not None and (row.version, row.content) == (draft.version, draft.content)
            if (fated := Fate.FRESH if is_here and draft.id in anew else fate(draft, row)) is Fate.STALE:
                stale.append(draft)
            elif fated is Fate.FRESH or not is_here:
                due.append(Due(draft, fated, row))
            else:
                outcome.unchanged += 1
        outcome.stale = len(stale)
        await self._depart(writer, due, outcome)
        await self._send(writer, due, outcome)
        await self._keep(writer, stale)
        return outcome

    async def _known(self, writer: Writer, identifiers: list[str]) -> dict[str, Row]:
        if not identifiers:
            return {}
        return {**await look_up(self._engine, writer.live, identifiers), **self._written}

    async def _depart(self, writer: Writer, due: list[Due], outcome: Outcome) -> None:
        """Tell of each record that leaves a company, before anything of it is sent; what cannot leave is not due."""
        moves = {draft.id: (row, draft) for draft, _, row in due if row and row.company != draft.company}
        known = await self._known(writer, [departures.name(row) for row, _ in moves.values()])
        made = [(departures.caused(*move, known), move[1]) for move in moves.values()]
        stamps = {draft.id: writer.stamps.fresh() for draft, _ in made}
        self._leaving |= moves.keys()
        writes = [Write(draft.id, draft.version, draft.source(*stamps[draft.id]), cause) for draft, cause in made]
        refused = outcome.refuse(await writer.sender(self._pace).send(writes))
        self._written |= {draft.id: _row(draft, stamps[draft.id]) for draft, cause in made if cause.id not in refused}
        self._leaving -= refused
        due[:] = [each for each in due if each.draft.id not in refused]

    async def _send(self, writer: Writer, due: list[Due], outcome: Outcome) -> None:
        stamps = {draft.id: writer.stamps.give(draft, fated, row) for draft, fated, row in due}
        fresh = {draft.id: draft for draft, fated, _ in due if fated is Fate.FRESH}
        self._unpublished |= fresh
        writes = [Write(draft.id, draft.version, draft.source(*stamps[draft.id]), draft) for draft, *_ in due]
        refused = outcome.refuse(await writer.sender(self._pace).send(writes))
        outcome.indexed += len(fresh.keys() - refused)
        outcome.unchanged += len(stamps.keys() - fresh.keys() - refused)
        for identifier in refused:
            self._unpublished.pop(identifier, None)
        self._leaving -= stamps.keys() - refused
        self._written |= {draft.id: _row(draft, stamps[draft.id]) for draft, *_ in due if draft.id not in refused}

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
            if self._leaving:
                await departures.tell_again(self._writer, self._leaving)
            await self._writer.publish()
        except LockedError:
            self._lost = {**self._lost, **self._unpublished}
            await self.rest()
            await self.apply({})
            return await self.publish()
        self._written, self._unpublished, self._leaving = {}, {}, set()
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
