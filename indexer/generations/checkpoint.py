"""The build of one resource: its progress, kept in the control index so that it resumes, what it reads and reports."""

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
import orjson
from elasticsearch import ConflictError, NotFoundError

from indexer.control import unchanged
from indexer.documents.companies import ALL_COMPANIES, Companies, Coverage
from indexer.errors import LockedError, ObjectionError
from indexer.generations.lifecycle import StoredSeqNos
from indexer.reporting.dead_letters import DeadLetters
from indexer.reporting.report import OnProgress, ResourceReport, RunStage, excess_dead_letters
from indexer.settings import IndexerContext
from indexer.source.lines import Source
from mappings import Resource


class BuildPhase(StrEnum):
    """The phases of a build, in order."""

    LOADING = "loading"
    LOADED = "loaded"  # the candidate has every line of the source
    PASSED = "passed"  # it is reconciled with the live generation and has passed the gate
    GRAFTED = "grafted"  # what differs is in a copy of the live generation, which is the candidate now


class BuildProgress(msgspec.Struct):
    """The progress of one build. A refused build keeps its candidate, which only a forced run resumes."""

    candidate: str
    live: str | None
    source: str  # the identity of the source
    fingerprint: str
    taken_at: int  # the time of the source's snapshot, microseconds since 1970
    dead_letters: str  # path of their file, which may not exist yet
    follows: StoredSeqNos  # the last `_seq_no` of the live generation that the candidate includes
    phase: BuildPhase = BuildPhase.LOADING
    line: int = 0  # every line up to this one is acknowledged
    newest: int = 0  # the latest `updated_at` among them, milliseconds since 1970
    accepted: int = 0  # records of the source, once it is loaded
    counts: dict[str, int] = {}
    bad: list[int] = []  # the numbers of the lines in the dead-letter file
    unreadable: list[str] = []  # identifiers of the records in those lines
    unidentified: list[int] | None = None  # those of the lines that name no record; None: unknown
    stray: int = 0  # lines of the source that name no resource and are reported with another
    kept: list[str] = []  # identifiers in those lines, and in no other of the source; set once it is loaded
    repeated: list[str] = []  # identifiers that were in the candidate before they were written
    copied: list[str] = []  # identifiers of which the live generation has a newer state
    forgotten: int = 0  # the highest sequence of the tombstones that were not carried over
    stamped_above: int | None = None  # the sequence above which stamps for the swap were assigned
    refusal: str | None = None
    is_overridable: bool = False  # whether force overrides the refusal
    overridden: list[str] = []  # objections that force has overridden
    warnings: list[str] = []
    companies: str = ""  # the fingerprint of the known companies
    life: str = ""  # of the live data that the candidate follows
    covered: list[str] | None = None  # the companies that the build replaces; None: all
    others: int = 0  # live records of other companies: unless there are none, a copy of the live generation has them
    copy: str | None = None  # the copy that is being made; once grafted, the candidate that it has replaced
    vanished_companies: dict[str, int] = {}  # records that the source lacks, by company

    @property
    def own(self) -> Coverage:
        """The companies whose documents the candidate is built of: all, unless a copy has those of the others."""
        return Coverage(frozenset(self.covered)) if self.others and self.covered is not None else ALL_COMPANIES


@dataclass
class BuildCheckpoint:
    """The checkpoint document of one alias. Its version is checked on every write, so two runs cannot both resume."""

    context: IndexerContext
    alias: str
    _version: dict[str, Any] = field(default_factory=dict)

    @property
    def _id(self) -> str:
        return f"build-{self.alias}"

    async def read(self) -> BuildProgress | None:
        """Return the progress of an earlier run, None if there is none."""
        index = self.context.connection.control_index
        try:
            response = await self.context.client.get(index=index, id=self._id)
        except NotFoundError:
            self._version = {}
            return None
        self._version = unchanged(response)
        return msgspec.convert(response["_source"]["progress"], BuildProgress)

    async def write(self, progress: BuildProgress) -> None:
        """Write the progress; raise LockedError if another run has written since."""
        document = {"progress": msgspec.to_builtins(progress)}
        condition = self._version or {"op_type": "create"}
        index = self.context.connection.control_index
        try:
            response = await self.context.cluster.index(index=index, id=self._id, document=document, **condition)
        except ConflictError:
            # The write may have succeeded and only its response been lost.
            if msgspec.to_builtins(await self.read()) != document["progress"]:
                raise LockedError(f"Another run has resumed the build of {self.alias}.") from None
        else:
            self._version = unchanged(response)

    async def clear(self) -> None:
        """Delete the checkpoint of a finished build, unless another run has written it since."""
        cluster, index = self.context.cluster.options(ignore_status=(404, 409)), self.context.connection.control_index
        await cluster.delete(index=index, id=self._id, **self._version)
        self._version = {}


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
