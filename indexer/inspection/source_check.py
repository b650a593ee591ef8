"""The inspection of a whole source: every line is read and checked as a build would, without Elasticsearch."""

from dataclasses import dataclass, field

import orjson

from indexer.documents.companies import Companies, companies_from_source
from indexer.documents.line_parser import ChunkReader, LineParser, ParsedChunk
from indexer.inspection.field_statistics import FieldStatistics, FieldSummary
from indexer.inspection.identifier_ledger import IdentifierLedger, MergedIdentifiers, ReferenceCheck, open_ledger
from indexer.reporting.fault_tally import FaultKind, FaultTally
from indexer.reporting.report import OnProgress, ResourceReport, RunStage, ignore_progress
from indexer.settings import IndexerSettings
from indexer.source.lines import Source, require_present
from indexer.source.tables.table_source import TableSource, skipped_rows
from mappings import COMPANY, RESOURCES, Resource

_DEFAULTS = IndexerSettings()


@dataclass
class ResourceCheck:
    """What was found in the lines of one resource; `rounded` and `corrected` are numbers of values."""

    resource: str
    lines: int
    bad: int
    skipped: int
    deleted: int
    rounded: int
    corrected: int
    faults: list[FaultKind]
    fields: list[FieldSummary]
    merged: MergedIdentifiers | None = None
    references: list[ReferenceCheck] = field(default_factory=list)

    def share_filled(self, one: FieldSummary) -> str:
        """Return the percentage of the valid records that have a value in a field."""
        return f"{one.filled / max(self.lines - self.bad - self.deleted, 1):.1%}"


@dataclass
class SourceCheck:
    """What was found in a source. `companies` are those that lines name although the source does not have them."""

    notes: list[str]
    companies: list[str]
    resources: list[ResourceCheck]

    @property
    def bad(self) -> int:
        """The number of bad lines."""
        return sum(resource.bad for resource in self.resources)


class _AnyCompanies(Companies):
    """Every company is known, for a source without companies: which are live is unknown here."""

    def key_of(self, identifier: str) -> str | None:
        self.keys.add(identifier)
        return identifier


def check_source(
    source: Source, settings: IndexerSettings = _DEFAULTS, on_progress: OnProgress = ignore_progress
) -> SourceCheck:
    """Read a source to its end; raise SourceError if it cannot be read or has nothing of any resource."""
    present = require_present(source, RESOURCES)
    companies = companies_from_source(source, settings) if COMPANY in present else _AnyCompanies()
    with open_ledger() as ledger:
        checks = {one: _Inspection(source, one, ledger, on_progress).run(companies, settings) for one in present}
        ledger.index()
        skipped = skipped_rows(source)
        for resource, check in checks.items():
            check.skipped = skipped.get(resource.alias, 0)
            check.merged, check.references = ledger.merged(resource), ledger.references(resource)
    tables = source if isinstance(source, TableSource) else None
    named = sorted(companies.keys) if isinstance(companies, _AnyCompanies) else []
    return SourceCheck(tables.notes if tables else [], named, list(checks.values()))


class _Inspection:
    """One pass over the lines of a resource."""

    def __init__(self, source: Source, resource: Resource, ledger: IdentifierLedger, on_progress: OnProgress) -> None:
        self._source, self._resource, self._ledger = source, resource, ledger
        self._on_progress = on_progress
        self._report = ResourceReport(resource.alias, RunStage.READING)
        self._faults, self._statistics = FaultTally(), FieldStatistics(resource)
        self._deleted = 0

    def run(self, companies: Companies, settings: IndexerSettings) -> ResourceCheck:
        """Read the lines and return what was found."""
        with self._source.open(self._resource) as stream:
            self._report.bytes_total = stream.total
            chunks = ChunkReader(LineParser(self._resource, companies, settings), stream, settings)
            while (chunk := chunks.read()) is not None:
                self._add(chunk)
                self._on_progress(self._report)
        report = self._report
        report.stage = RunStage.CHECKED
        self._on_progress(report)
        kinds, fields, counts = self._faults.kinds(), self._statistics.summaries, (report.rounded, report.corrected)
        return ResourceCheck(report.resource, report.read, report.dead, 0, self._deleted, *counts, kinds, fields)

    def _add(self, chunk: ParsedChunk) -> None:
        report = self._report
        report.read += chunk.read
        report.dead += len(chunk.rejected)
        report.add_roundings(chunk.roundings.values())
        report.corrected += chunk.corrected
        report.bytes_read = chunk.position
        for item in chunk.rejected:
            self._faults.add_line(item)
        live = [(one, orjson.loads(one.record)) for one in chunk.drafts if one.record is not None]
        self._deleted += len(chunk.drafts) - len(live)
        for _, record in live:
            self._statistics.add(record)
        self._ledger.add(self._resource, live)
