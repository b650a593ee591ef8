"""Where the updates of one resource are handed in: lines are checked, applied at its desk, and counted."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from indexer.clocks import now
from indexer.dead_letters import DeadLetters
from indexer.desk import Desk
from indexer.errors import RefusedError
from indexer.fate import newest
from indexer.intake import Chunk, Intake
from indexer.job import too_many
from indexer.ledger import Entry, enter
from indexer.report import ignore
from indexer.source import Fault
from mappings import COMPANY

if TYPE_CHECKING:
    from indexer.companies import Companies
    from indexer.documents import Draft
    from indexer.engine import Engine
    from indexer.pace import Pace
    from indexer.report import OnProgress, ResourceReport, Stage
    from indexer.source import Line
    from mappings import Resource

    Item = Line | Fault


class Counter:
    """Everything that a run does to one resource. Without a resource, all lines are dead."""

    on_change: OnProgress = staticmethod(ignore)

    def __init__(
        self, engine: Engine, resource: Resource | None, known: Companies, report: ResourceReport, pace: Pace
    ) -> None:
        """Nothing is locked yet."""
        self._engine = engine
        self._resource = resource
        self._companies = known
        self._report = report
        self._letters = DeadLetters(engine.settings.dead_letter_folder, report.resource)
        self._intake = Intake(resource, known) if resource else None
        self._desk = Desk(engine, resource, pace, self._tell) if resource else None
        self._newest = 0  # the latest `updated_at` that was handed in, milliseconds
        self._started = time.monotonic()

    def enter(self, stage: Stage) -> None:
        """Say that the next stage begins."""
        self._report.stage = stage
        self._changed()

    def _tell(self, note: str) -> None:
        self._report.note = note
        self._changed()

    def _changed(self) -> None:
        self._report.seconds = time.monotonic() - self._started
        self.on_change(self._report)

    async def apply(self, items: list[Item]) -> None:
        """Apply lines: the newest of each record where it is newer than what is live."""
        chunk = await asyncio.to_thread(self._checked, items)
        drafts, report = newest(chunk.drafts), self._report
        report.read += len(items)
        report.rounded += chunk.rounded
        report.corrected += chunk.corrected
        report.stale += len(chunk.drafts) - len(drafts)
        for line, error in chunk.faults:
            self._letters.add(line, error.field, error.reason)
        if self._desk is not None and drafts:
            await self._hand_in(self._desk, drafts)
        self._letters.count_in(report)
        self._changed()
        self._stop_above(self._engine.settings.dead_letter_limit)

    def _stop_above(self, share: float) -> None:
        """Raise RefusedError when too many lines are bad: the source is not what it seems to be."""
        complaint = too_many(self._report, share, at_end=False)
        if complaint is not None:
            raise RefusedError(f"{complaint}: nothing more was read; see {self._report.dead_letters}.")

    def _checked(self, items: list[Item]) -> Chunk:
        chunk = Chunk()
        for item in items:
            if self._intake is not None:
                self._intake.take(item, chunk)
            elif isinstance(item, Fault):
                chunk.faults.append((item.line, item.error))
        return chunk

    async def _hand_in(self, desk: Desk, drafts: dict[str, Draft]) -> None:
        outcome, report = await desk.apply(drafts), self._report
        report.note = None
        report.indexed += outcome.indexed
        report.unchanged += outcome.unchanged
        report.stale += outcome.stale
        for draft, reason in outcome.refused:
            self._letters.add(draft.line, "", reason)
        self._newest = max(self._newest, *(draft.stamped_at for draft in drafts.values()))
        if self._resource is COMPANY:
            await self.publish()
            await self._companies.reload(self._engine.client, desk.alias)

    async def publish(self) -> None:
        """Make what was handed in visible."""
        self._letters.flush()
        if self._desk is not None and await self._desk.publish():
            report = self._report
            entry = Entry("update", now(), self._newest, report.read, report.dead, report.dead_letters)
            await enter(self._engine, self._desk.alias, entry)

    async def rest(self) -> None:
        """Publish, and let go of the lock until there is more to do."""
        await self.publish()
        if self._desk is not None:
            await self._desk.rest()

    async def close(self) -> None:
        """Publish, and let go of everything."""
        try:
            await self.rest()
        finally:
            self._letters.close()
