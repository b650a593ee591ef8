"""Reads and checks a source as a build would, and writes nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from indexer.intake import Chunks, Intake
from indexer.report import OnProgress, ResourceReport, Stage, Summary, ignore
from indexer.settings import IndexerSettings
from mappings import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from indexer.companies import Companies
    from indexer.errors import ItemError
    from indexer.source import Line, Source
    from mappings import Resource

    OnFault = Callable[[Line, ItemError], None]


def dry_run(
    source: Source,
    known: Companies,
    on_fault: OnFault,
    *,
    resources: Collection[Resource] = RESOURCES,
    on_progress: OnProgress = ignore,
) -> Summary:
    """Check every envelope of a source and hand each fault to `on_fault`; raise SourceError."""
    summary = Summary()
    for resource in [resource for resource in RESOURCES if resource in resources and source.has(resource)]:
        report = ResourceReport(resource.alias, Stage.READING)
        summary.resources.append(report)
        for _ in _checked(source, Intake(resource, known), resource, report, on_fault):
            on_progress(report)
        report.stage = Stage.CHECKED
        on_progress(report)
    return summary


def _checked(
    source: Source, intake: Intake, resource: Resource, report: ResourceReport, on_fault: OnFault
) -> Iterator[None]:
    """Count a resource's envelopes, and stop after each chunk."""
    started = time.monotonic()
    with source.open(resource) as reading:
        report.bytes_total = reading.total
        chunks = Chunks(intake, reading, IndexerSettings())
        while (chunk := chunks.next()) is not None:
            report.read += chunk.read
            report.dead += len(chunk.faults)
            report.rounded += chunk.rounded
            report.corrected += chunk.corrected
            report.bytes_read, report.seconds = chunk.position, time.monotonic() - started
            for line, error in chunk.faults:
                on_fault(line, error)
            yield
