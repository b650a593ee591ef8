"""Loads one resource into one index: chunks are read, stamped and sent, several under way together."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from indexer.bulk import Operation, Sender, operation
from indexer.clocks import Known, Stamps, look_up
from indexer.errors import RefusedError
from indexer.intake import Chunk, Chunks, Intake
from indexer.retry import patiently

if TYPE_CHECKING:
    from indexer.companies import Companies
    from indexer.dead_letters import DeadLetters
    from indexer.engine import Engine
    from indexer.report import OnProgress, ResourceReport
    from indexer.source import Source
    from mappings import Resource

_ALWAYS_ALLOWED = 10
# While reading, the share is taken of at least this many envelopes, so that a bad start does not condemn a long file.
_FIRST_JUDGED = 10_000


@dataclass(frozen=True)
class Job:
    """The build of one resource: what is read, and where its outcome is written down."""

    resource: Resource
    source: Source
    companies: Companies
    report: ResourceReport
    letters: DeadLetters

    def refuse_above(self, share: float, *, at_end: bool = True) -> None:
        """Bring the count of bad envelopes up to date; raise RefusedError when there are too many."""
        report = self.report
        report.bad, report.dead_letters = len(self.letters.numbers), self.letters.path
        judged = report.read if at_end else max(report.read, _FIRST_JUDGED)
        if report.bad > max(_ALWAYS_ALLOWED, share * judged):
            raise RefusedError(
                f"{report.bad} of {report.read} {report.resource} are bad, more than BROKERAGE_DEAD_LETTER_LIMIT "
                f"({share:g}) allows: nothing was swapped; see {report.dead_letters}."
            )


@dataclass
class Loader:
    """One pass over the source into the index `candidate`. `live` is the generation that is served meanwhile."""

    engine: Engine
    job: Job
    candidate: str
    live: str | None
    stamps: Stamps
    on_progress: OnProgress
    repeated: set[str] = field(default_factory=set)

    async def load(self) -> None:
        """Write every envelope; `repeated` then holds the identifiers that were written more than once."""
        settings = self.engine.settings
        slots = asyncio.Semaphore(settings.bulks_in_flight)
        sender = Sender(self.engine.client, self.candidate, settings.retry_seconds)
        with self.job.source.open(self.job.resource) as reading:
            self.job.report.bytes_total = reading.total
            chunks = Chunks(Intake(self.job.resource, self.job.companies), reading, settings)
            try:
                async with asyncio.TaskGroup() as under_way:
                    while (chunk := await asyncio.to_thread(chunks.next)) is not None:
                        self._count(chunk)
                        operations = await self._stamped(chunk)
                        await slots.acquire()
                        under_way.create_task(self._send(sender, operations, slots))
            except BaseExceptionGroup as failures:
                raise failures.exceptions[0] from None

    def _count(self, chunk: Chunk) -> None:
        report = self.job.report
        report.read += chunk.read
        report.rounded += chunk.rounded
        report.corrected += chunk.corrected
        report.bytes_read = chunk.position
        for line, error in chunk.faults:
            self.job.letters.add(line, error.field, error.reason)
        self.job.refuse_above(self.engine.settings.dead_letter_limit, at_end=False)
        self.on_progress(report)

    async def _stamped(self, chunk: Chunk) -> list[Operation]:
        known = await self._known([draft.id for draft in chunk.drafts])
        return [operation(draft, *self.stamps.give(draft, known.get(draft.id))) for draft in chunk.drafts]

    async def _known(self, identifiers: list[str]) -> dict[str, Known]:
        if self.live is None or not identifiers:
            return {}
        live = self.live
        return await patiently(
            lambda: look_up(self.engine.client, live, identifiers), self.engine.settings.retry_seconds
        )

    async def _send(self, sender: Sender, operations: list[Operation], slots: asyncio.Semaphore) -> None:
        try:
            verdict = await sender.send(operations) if operations else None
        finally:
            slots.release()
        if verdict is not None:
            self.repeated.update(verdict.repeated)
            for draft, reason in verdict.refused:
                self.job.letters.add(draft.line, "", reason)
