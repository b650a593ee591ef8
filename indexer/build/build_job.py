"""The build of one resource: what it reads, and where it reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from indexer.errors import RefusedError
from indexer.reporting.tolerance import excess_dead_letters

if TYPE_CHECKING:
    from indexer.documents.companies import Companies
    from indexer.reporting.dead_letters import DeadLetters
    from indexer.reporting.report import OnProgress, ResourceReport, RunStage
    from indexer.source.lines import Source
    from mappings import Resource


@dataclass(frozen=True)
class BuildJob:
    """The source of a build, the companies that its records may belong to, and where its outcome is reported."""

    resource: Resource
    source: Source
    companies: Companies
    report: ResourceReport
    dead_letters: DeadLetters
    dead_letter_limit: float
    is_forced: bool
    on_progress: OnProgress

    def enter_stage(self, stage: RunStage) -> None:
        """Report that the next stage begins."""
        self.report.stage = stage
        self.report_progress()

    def report_progress(self) -> None:
        """Report the current counts."""
        self.on_progress(self.report)

    def report_wait(self, note: str) -> None:
        """Report what the run waits for."""
        self.report.note = note
        self.report_progress()

    def check_dead_letters(self, *, at_end: bool = True) -> None:
        """Update the count of dead letters; object if there are too many."""
        report, share = self.report, self.dead_letter_limit
        self.dead_letters.update_report(report)
        excess = excess_dead_letters(report, share, at_end=at_end)
        if excess is not None and (at_end or not self.is_forced):
            self.refuse_unless_forced(f"{excess}: see {report.dead_letters}")

    def refuse_unless_forced(self, objection: str) -> None:
        """Raise RefusedError, or record the objection if force overrides it."""
        if not self.is_forced:
            raise RefusedError(f"{objection}. Nothing was swapped.")
        self.report.overridden.append(objection)
