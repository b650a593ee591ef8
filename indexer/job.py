"""The build of one resource: what is read, and where its outcome is written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from indexer.errors import RefusedError
from indexer.shares import allowed

if TYPE_CHECKING:
    from indexer.companies import Companies
    from indexer.dead_letters import DeadLetters
    from indexer.report import OnProgress, ResourceReport, Stage
    from indexer.source import Source
    from mappings import Resource

# While reading, the share is taken of at least this many envelopes, so that a bad start does not condemn a long file.
_FIRST_JUDGED = 10_000


def too_many(report: ResourceReport, share: float, *, at_end: bool) -> str | None:
    """Return the sentence, without its end, that condemns a source with so many bad envelopes; a few never do."""
    judged = report.read if at_end else max(report.read, _FIRST_JUDGED)
    if report.dead <= allowed(share, judged):
        return None
    return (
        f"{report.dead} of {report.read} {report.resource} are bad, more than BROKERAGE_DEAD_LETTER_LIMIT "
        f"({share:g}) allows"
    )


@dataclass(frozen=True)
class Job:
    """What is read, with what companies it is understood, and where its outcome is written down."""

    resource: Resource
    source: Source
    companies: Companies
    report: ResourceReport
    letters: DeadLetters
    dead_letter_limit: float
    is_forced: bool
    on_progress: OnProgress

    def enter(self, stage: Stage) -> None:
        """Say that the next stage begins."""
        self.report.stage = stage
        self.show()

    def show(self) -> None:
        """Show the counts as they stand."""
        self.on_progress(self.report)

    def tell(self, note: str) -> None:
        """Show what is being waited for."""
        self.report.note = note
        self.show()

    def refuse_above(self, *, at_end: bool = True) -> None:
        """Bring the count of bad envelopes up to date; object when there are too many."""
        report, share = self.report, self.dead_letter_limit
        self.letters.count_in(report)
        complaint = too_many(report, share, at_end=at_end)
        if complaint is not None and (at_end or not self.is_forced):
            self.object(f"{complaint}: see {report.dead_letters}")

    def object(self, objection: str) -> None:
        """Raise RefusedError, or note the objection where force overrides it."""
        if not self.is_forced:
            raise RefusedError(f"{objection}. Nothing was swapped.")
        self.report.overridden.append(objection)
