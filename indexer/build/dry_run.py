"""Dry run: reads and validates a source as a build would, without writing."""

import time
from collections.abc import Callable, Collection, Iterator

from indexer.documents.companies import Companies
from indexer.documents.line_parser import ChunkReader, LineParser
from indexer.reporting.report import OnProgress, ResourceReport, RunStage, RunSummary, ignore_progress
from indexer.settings import IndexerSettings
from indexer.source.lines import RejectedLine, Source
from indexer.source.tables.table_source import skipped_rows
from mappings import RESOURCES, Resource

OnFault = Callable[[RejectedLine], None]

_DEFAULTS = IndexerSettings()


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
        for _ in _checked(source, LineParser(resource, known, settings), report, on_fault, settings):
            on_progress(report)
        report.stage = RunStage.CHECKED
        on_progress(report)
    summary.set_skipped(skipped_rows(source))
    return summary


def _checked(
    source: Source, parser: LineParser, report: ResourceReport, on_fault: OnFault, settings: IndexerSettings
) -> Iterator[None]:
    """Count a resource's envelopes, yielding after each chunk."""
    started = time.monotonic()
    with source.open(parser.resource) as reading:
        report.bytes_total = reading.total
        chunks = ChunkReader(parser, reading, settings)
        while (chunk := chunks.read()) is not None:
            report.read += chunk.read
            report.dead += len(chunk.rejected)
            report.add_roundings(chunk.roundings.values())
            report.corrected += chunk.corrected
            report.bytes_read, report.seconds = chunk.position, time.monotonic() - started
            for item in chunk.rejected:
                on_fault(item)
            yield
