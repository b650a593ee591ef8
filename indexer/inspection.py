"""Inspection of a source without Elasticsearch: every line is read and checked as a build would.

A dry run reports faults only. A check also says how the fields are filled, which lines share an identifier, and which
references dangle; for these, identifiers and references are kept on disk.
"""

from __future__ import annotations

import dataclasses
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any

import orjson

from cluster.terminal import counted
from indexer.documents.builder import PendingDocument
from indexer.documents.companies import Companies, companies_from_source
from indexer.documents.line_parser import ChunkReader, LineParser, ParsedChunk
from indexer.names import NAME_TARGETS, name_in, zone_in
from indexer.reporting.report import (
    EmptiedField,
    FaultKind,
    FaultTally,
    OnProgress,
    ResourceReport,
    RoundedField,
    RunStage,
    RunSummary,
    excess_emptied,
    ignore_progress,
)
from indexer.settings import IndexerSettings
from indexer.source.lines import RejectedLine, Source, require_present, row_notes
from indexer.source.tables.table_source import TableSource
from mappings import COMPANY, RESOURCES, Resource, declared_references
from mappings.resource import NameOf

_DEFAULTS = IndexerSettings()


@dataclass
class ResourceCheck:
    """What was found in the lines of one resource; `rounded` and `corrected` are numbers of values."""

    resource: str
    lines: int
    bad: int
    skipped: int
    skip_reasons: dict[str, int]
    deleted: int
    rounded: int
    corrected: int
    faults: list[FaultKind]
    fields: list[FieldSummary]
    emptied: list[EmptiedField]
    objection: str | None  # of a load to so many emptied cells
    merged: MergedIdentifiers | None = None
    references: list[ReferenceCheck] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)  # of damaged cells
    fills: list[FilledField] = field(default_factory=list)
    roundings: list[RoundedField] = field(default_factory=list)  # of `rounded`

    @property
    def has_fields(self) -> bool:
        """Whether any line has a value."""
        return any(one.filled for one in self.fields)

    def share_filled(self, one: FieldSummary) -> str:
        return f"{one.filled / max(self.lines - self.bad - self.deleted, 1):.1%}"


@dataclass
class FilledField:
    """A field that is filled in lines whose source lacks it: in how many, from what, and why others stay empty."""

    field: str
    origin: str
    filled: int = 0
    empty: dict[str, int] = dataclasses.field(default_factory=dict)

    def add_empty(self, reason: str, lines: int = 1) -> None:
        if lines:
            self.empty[reason] = self.empty.get(reason, 0) + lines


@dataclass
class SourceCheck:
    """What was found in a source. `companies` are those that lines name although the source does not have them."""

    notes: list[str]
    companies: list[str]
    resources: list[ResourceCheck]

    @property
    def bad(self) -> int:
        return sum(resource.bad for resource in self.resources)

    @property
    def objections(self) -> list[str]:
        """Why a load would be refused."""
        return [resource.objection for resource in self.resources if resource.objection]


class _AnyCompanies(Companies):
    """Every company is known, for a source without companies: which are live is unknown here."""

    def key_of(self, identifier: str) -> str | None:
        self.keys.add(identifier)
        return identifier


def check_source(
    source: Source,
    settings: IndexerSettings = _DEFAULTS,
    on_progress: OnProgress = ignore_progress,
    *,
    resources: Sequence[Resource] = RESOURCES,
) -> SourceCheck:
    """Read a source to its end; raise SourceError if it cannot be read or has nothing of any of the resources."""
    present = require_present(source, resources)
    companies = companies_from_source(source, settings) if source.has(COMPANY) else _AnyCompanies()
    with _open_ledger() as ledger:
        parsers = {resource: LineParser(resource, companies, settings) for resource in present}
        checks = {
            resource: _inspect(source, parser, settings, ledger, on_progress) for resource, parser in parsers.items()
        }
        ledger.index()
        notes = row_notes(source)
        for resource, check in checks.items():
            check.skip_reasons = {**notes.skipped.get(resource.alias, {})}
            check.skipped = sum(check.skip_reasons.values())
            check.warnings = notes.warnings.get(resource.alias, [])
            check.merged, check.references = ledger.merged(resource), ledger.references(resource)
            for name, fill in zip(resource.filled, check.fills, strict=False):
                ledger.count_names(resource, name, fill)
            check.fills = [fill for fill in check.fills if fill.filled or fill.empty]
    tables = source if isinstance(source, TableSource) else None
    named = sorted(companies.keys) if isinstance(companies, _AnyCompanies) else []
    said = [*(tables.notes if tables else []), *notes.times]
    return SourceCheck(said, named, list(checks.values()))


def _inspect(
    source: Source, parser: LineParser, settings: IndexerSettings, ledger: IdentifierLedger, on_progress: OnProgress
) -> ResourceCheck:
    resource, deleted = parser.resource, 0
    report = ResourceReport(resource.alias, RunStage.READING)
    faults, statistics, fills = FaultTally(), FieldStatistics(resource), _fills_of(resource)
    for chunk in _counted_chunks(source, parser, report, settings):
        for item in chunk.rejected:
            faults.add_line(item)
        live = [(document, orjson.loads(document.record)) for document in chunk.drafts if document.record is not None]
        deleted += len(chunk.drafts) - len(live)
        for document, record in live:
            statistics.add(record)
            _count_fills(resource, document, record, fills)
        ledger.add(resource, live)
        on_progress(report)
    report.stage = RunStage.CHECKED
    on_progress(report)
    emptied = report.emptied, excess_emptied(report, report.read) if report.emptied else None
    counts = (deleted, report.rounded, report.corrected)
    return ResourceCheck(
        resource.alias,
        report.read,
        report.dead,
        0,
        {},
        *counts,
        faults.kinds(),
        statistics.summaries,
        *emptied,
        fills=fills,
        roundings=report.roundings,
    )


def _fills_of(resource: Resource) -> list[FilledField]:
    """Return the fields that are filled: first the names, then the days on the market."""
    names = [FilledField(name.member, name.target) for name in resource.filled]
    return [*names, FilledField("DaysOnMarket", "ListingContractDate and SoldDate")] if names else []


def _count_fills(
    resource: Resource, document: PendingDocument, record: dict[str, Any], fills: list[FilledField]
) -> None:
    """Count the lines that lack a name without saying whose, and those that lack the days on the market."""
    if not resource.names:
        return
    *of_names, days = fills
    for name, fill in zip(resource.filled, of_names, strict=True):
        is_lacking = document.zoneless if name is resource.zone_of else not record[name.member]
        if is_lacking and not record[name.reference]:
            fill.add_empty(f"{name.reference} is empty as well")
    if record["DaysOnMarket"] is not None:
        days.filled += orjson.loads(document.line.data)["record"].get("DaysOnMarket") is None
    elif record["OnMarket"]:
        days.add_empty("it changes each day while a listing is on the market")
    elif "SoldDate" not in record:
        days.add_empty("a listing does not say when it left the market")
    else:
        days.add_empty("one of the dates is missing, or they are in the wrong order")


OnFault = Callable[[RejectedLine], None]


def dry_run(  # noqa: PLR0913 - what is checked, how, and where it is reported
    source: Source,
    known: Companies,
    on_fault: OnFault,
    settings: IndexerSettings = _DEFAULTS,
    *,
    resources: Collection[Resource] = RESOURCES,
    on_progress: OnProgress = ignore_progress,
) -> RunSummary:
    """Validate every envelope of a source and pass each fault to `on_fault`; raise SourceError."""
    summary = RunSummary()
    for resource in [resource for resource in RESOURCES if resource in resources and source.has(resource)]:
        report = ResourceReport(resource.alias, RunStage.READING)
        summary.resources.append(report)
        for chunk in _counted_chunks(source, LineParser(resource, known, settings), report, settings):
            for item in chunk.rejected:
                on_fault(item)
            on_progress(report)
        report.stage = RunStage.CHECKED
        on_progress(report)
    summary.add_row_notes(row_notes(source))
    return summary


def _counted_chunks(
    source: Source, parser: LineParser, report: ResourceReport, settings: IndexerSettings
) -> Iterator[ParsedChunk]:
    started = time.monotonic()
    with source.open(parser.resource) as reading:
        report.bytes_total = reading.total
        chunks = ChunkReader(parser, reading, settings)
        while (chunk := chunks.read()) is not None:
            report.read += chunk.read
            report.dead += len(chunk.rejected)
            report.add_roundings(chunk.roundings.values())
            report.corrected += chunk.corrected
            report.add_emptied(chunk.emptied)
            report.bytes_read, report.seconds = chunk.position, time.monotonic() - started
            yield chunk


_MAX_VALUES = 12
_MAX_CHARACTERS = 60
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_EMPTY: tuple[object, ...] = (None, "", [], {})


@dataclass
class FieldSummary:
    """A field: in how many records it has a value, the range of its numbers or texts, and its values if they are few.

    The range of a list is that of its length; texts are compared as numbers if all of them are numbers.
    """

    name: str
    filled: int = 0
    lowest: str | float | None = None
    highest: str | float | None = None
    values: dict[str, int] | None = field(default_factory=dict)
    _are_numbers: bool = field(default=True, init=False)
    _least_number: str = field(default="", init=False)
    _greatest_number: str = field(default="", init=False)

    def add(self, value: Any) -> None:
        self.filled += 1
        measure = len(value) if isinstance(value, list | dict) else value
        if isinstance(measure, str):
            measure = measure[:_MAX_CHARACTERS]
            self._widen_numbers(measure)
        if not isinstance(measure, bool):
            self._widen(measure)
        self._count(str(measure))

    def _widen(self, value: Any) -> None:
        if self.lowest is None:
            self.lowest = self.highest = value
        elif type(value) is not type(self.lowest) and isinstance(value, str) != isinstance(self.lowest, str):
            return  # an untyped field may have texts and numbers
        elif value < self.lowest:
            self.lowest = value
        elif value > self.highest:
            self.highest = value

    def _widen_numbers(self, text: str) -> None:
        """Extend the range of texts that are numbers; the first other text ends it."""
        self._are_numbers = self._are_numbers and _NUMBER.fullmatch(text) is not None
        if not self._are_numbers:
            return
        if not self._least_number or float(text) < float(self._least_number):
            self._least_number = text
        if not self._greatest_number or float(text) > float(self._greatest_number):
            self._greatest_number = text

    def finish(self) -> None:
        if self._are_numbers and self._least_number and isinstance(self.lowest, str):
            self.lowest, self.highest = self._least_number, self._greatest_number
        self.values = dict(Counter(self.values).most_common()) if self.values else None

    def _count(self, text: str) -> None:
        if self.values is None:
            return
        self.values[text] = self.values.get(text, 0) + 1
        if len(self.values) > _MAX_VALUES:
            self.values = None


class FieldStatistics:
    def __init__(self, resource: Resource) -> None:
        self._fields = {one.name: FieldSummary(one.name) for one in resource.stored}

    def add(self, record: dict[str, Any]) -> None:
        for name, value in record.items():
            if value not in _EMPTY:
                self._fields[name].add(value)

    @property
    def summaries(self) -> list[FieldSummary]:
        """The fields in the order of the contract; values by frequency."""
        for one in self._fields.values():
            one.finish()
        return list(self._fields.values())


_MAX_EXAMPLES = 5
_CACHE_KIB = 16_384
_SCHEMA = f"""
PRAGMA journal_mode = off; PRAGMA synchronous = off; PRAGMA cache_size = -{_CACHE_KIB};
CREATE TABLE lines (resource TEXT, id TEXT, content INTEGER, company TEXT, file TEXT, number INTEGER);
CREATE TABLE refs (resource TEXT, field TEXT, target TEXT, value TEXT, count INTEGER, file TEXT, number INTEGER,
                   PRIMARY KEY (resource, field, value)) WITHOUT ROWID;
CREATE TABLE names (resource TEXT, id TEXT, company TEXT, name TEXT, zone TEXT,
                    PRIMARY KEY (resource, id)) WITHOUT ROWID;
CREATE TABLE gaps (resource TEXT, field TEXT, target TEXT, value TEXT, company TEXT, count INTEGER,
                   PRIMARY KEY (resource, field, value, company)) WITHOUT ROWID;
"""
_GAPS = """
SELECT SUM(count), SUM(count * (names.id IS NULL)), SUM(count * (names.company <> gaps.company)),
       SUM(count * (names.company = gaps.company AND names.{value} IS NULL))
FROM gaps LEFT JOIN names ON names.resource = target AND id = value WHERE gaps.resource = ? AND field = ?
"""
_MERGED = """
SELECT id, COUNT(*) AS lines, COUNT(DISTINCT content) AS contents, COUNT(DISTINCT company) AS companies,
       MIN(file || ':' || number), MAX(file || ':' || number)
FROM lines WHERE resource = ? GROUP BY id HAVING lines > 1
"""
_DANGLING = """
SELECT value, count, file, number FROM refs
WHERE resource = ? AND field = ? AND NOT EXISTS (SELECT 1 FROM lines WHERE lines.resource = target AND id = value)
"""


@dataclass
class MergedIdentifiers:
    """Identifiers with more than one line: how many, how many with different contents, and some examples."""

    identifiers: int
    lines: int
    differing: int
    of_several_companies: int
    examples: list[str] = dataclasses.field(default_factory=list)


@dataclass
class ReferenceCheck:
    """A field that refers to another resource: how many different values dangle, and in how many lines.

    Without records of the target in the source, `is_checked` is false.
    """

    field: str
    target: str
    values: int
    is_checked: bool
    dangling: int = 0
    lines: int = 0
    examples: list[str] = dataclasses.field(default_factory=list)


@cache
def _references_of(resource: Resource) -> list[tuple[str, Resource]]:
    """Return the members that refer to other resources; references to companies are checked line by line."""
    return [
        (member, reference.target)
        for reference in declared_references()
        if reference.resource is resource and reference.target is not COMPANY
        for member in reference.field.sources
    ]


def _values(record: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the name and the time zone that listings may get from a record."""
    holder = SimpleNamespace(**{"timezone": None, **record})
    return name_in(holder), zone_in(holder)


@contextmanager
def _open_ledger() -> Iterator[IdentifierLedger]:
    # A database without a name is a temporary file.
    with closing(sqlite3.connect("", check_same_thread=False)) as database:
        database.executescript(_SCHEMA)
        yield IdentifierLedger(database)


class IdentifierLedger:
    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def add(self, resource: Resource, documents: list[tuple[PendingDocument, dict[str, Any]]]) -> None:
        rows = [
            (resource.alias, one.id, one.content, one.company, one.line.file, one.line.number) for one, _ in documents
        ]
        self._database.executemany("INSERT INTO lines VALUES (?, ?, ?, ?, ?, ?)", rows)
        references = [
            (resource.alias, name, target.alias, str(record[name]), document.line.file, document.line.number)
            for document, record in documents
            for name, target in _references_of(resource)
            if record.get(name)
        ]
        self._database.executemany(
            "INSERT INTO refs VALUES (?, ?, ?, ?, 1, ?, ?) ON CONFLICT DO UPDATE SET count = count + 1", references
        )
        gaps = [(resource.alias, *gap, one.company) for one, _ in documents for gap in one.gaps]
        self._database.executemany(
            "INSERT INTO gaps VALUES (?, ?, ?, ?, ?, 1) ON CONFLICT DO UPDATE SET count = count + 1", gaps
        )
        if resource.alias in NAME_TARGETS:
            named = [(resource.alias, one.id, one.company, *_values(record)) for one, record in documents]
            self._database.executemany("INSERT OR REPLACE INTO names VALUES (?, ?, ?, ?, ?)", named)

    def index(self) -> None:
        self._database.execute("CREATE INDEX identifiers ON lines (resource, id)")

    def merged(self, resource: Resource) -> MergedIdentifiers:
        sums = f"SELECT COUNT(*), SUM(lines), SUM(contents > 1), SUM(companies > 1) FROM ({_MERGED})"  # noqa: S608 - fixed
        counts = [int(count or 0) for count in self._database.execute(sums, (resource.alias,)).fetchone()]
        examples = self._database.execute(
            f"{_MERGED} ORDER BY contents DESC, lines DESC LIMIT {_MAX_EXAMPLES}", (resource.alias,)
        )
        shown = [
            f"{name}: {counted(lines, 'line')}, such as {first} and {last}"
            for name, lines, _, _, first, last in examples
        ]
        return MergedIdentifiers(counts[0], counts[1], counts[2], counts[3], shown)

    def count_names(self, resource: Resource, name: NameOf, fill: FilledField) -> None:
        """Count the lines whose name is found in the source, and those where it is not."""
        value = "zone" if name is resource.zone_of else "name"
        row = self._database.execute(_GAPS.format(value=value), (resource.alias, name.member)).fetchone()
        lines, unknown, foreign, nameless = (int(count or 0) for count in row)
        fill.filled += lines - unknown - foreign - nameless
        fill.add_empty(f"no such record in {name.target} of the source; a load also looks at the live ones", unknown)
        fill.add_empty(f"another company has the record in {name.target}", foreign)
        wanted = "time zone" if value == "zone" else "name"
        fill.add_empty(f"the record in {name.target} has no {wanted}", nameless)

    def references(self, resource: Resource) -> list[ReferenceCheck]:
        return [self._reference(resource, name, target) for name, target in _references_of(resource)]

    def _reference(self, resource: Resource, name: str, target: Resource) -> ReferenceCheck:
        one = self._database.execute
        (values,) = one("SELECT COUNT(*) FROM refs WHERE resource = ? AND field = ?", (resource.alias, name)).fetchone()
        has_target = one("SELECT 1 FROM lines WHERE resource = ? LIMIT 1", (target.alias,)).fetchone() is not None
        check = ReferenceCheck(name, target.alias, values, has_target)
        if has_target:
            found = one(f"SELECT COUNT(*), SUM(count) FROM ({_DANGLING})", (resource.alias, name)).fetchone()  # noqa: S608 - fixed
            check.dangling, check.lines = int(found[0]), int(found[1] or 0)
            rows = one(f"{_DANGLING} ORDER BY count DESC LIMIT {_MAX_EXAMPLES}", (resource.alias, name))
            check.examples = [
                f"{value}: {counted(count, 'line')}, such as {file}:{line}" for value, count, file, line in rows
            ]
        return check
