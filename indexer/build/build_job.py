"""The build of one resource: what it reads, and where it reports."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import orjson

from indexer.build.build_checkpoint import BuildProgress
from indexer.documents.companies import Companies
from indexer.errors import ObjectionError
from indexer.reporting.dead_letters import DeadLetters
from indexer.reporting.report import OnProgress, ResourceReport, RunStage
from indexer.reporting.tolerance import excess_dead_letters
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

    @property
    def companies_fingerprint(self) -> str:
        """A fingerprint of the known companies, which decide what lines are valid."""
        known = [sorted(self.companies.keys), sorted(self.companies.keys_by_numeric_id.items())]
        return hashlib.sha256(orjson.dumps(known)).hexdigest()[:16]

    @property
    def covered(self) -> list[str] | None:
        """The companies that the build replaces, None for all."""
        companies = self.companies.coverage.companies
        return None if companies is None else sorted(companies)

    def resume(self, progress: BuildProgress) -> None:
        """Continue the report and the dead letters of an interrupted or refused build."""
        report, dead_letters = self.report, self.dead_letters
        report.resumed_at = progress.line
        for name, count in progress.counts.items():
            setattr(report, name, count)
        unidentified = progress.bad if progress.unidentified is None else progress.unidentified
        dead_letters.resume(progress.dead_letters, progress.bad, progress.unreadable, unidentified)
        dead_letters.update_report(report)
        report.warnings, report.vanished_companies = list(progress.warnings), progress.vanished_companies
        if progress.bad and not Path(progress.dead_letters).is_file():
            report.warnings.append(
                f"the first {len(progress.bad):,} dead letters are in {progress.dead_letters}, not on this host"
            )
        report.is_taken = progress.refusal is not None
        progress.refusal = None

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
            self.refuse_unless_forced(f"{excess}, see {report.dead_letters}")

    def refuse_unless_forced(self, objection: str) -> None:
        """Raise ObjectionError, or record the objection if force overrides it."""
        if not self.is_forced:
            raise ObjectionError(f"{objection}. Nothing was swapped.")
        if objection not in self.report.overridden:
            self.report.overridden.append(objection)
