"""`brokerage index reindex` and `brokerage index update`: load records from a source."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import rich_click as click

import indexer
from brokerage.completion import files
from brokerage.exit_codes import exit_on_error
from brokerage.help_epilogs import INDEX_EXITS, epilog
from brokerage.index.index_runner import (
    JSON_OPTION,
    RESOURCE_CHOICE,
    RESOURCES_BY_NAME,
    exit_on_indexer_error,
    open_configured_source,
    print_error_line,
    run_on_cluster,
)
from brokerage.signals import exit_on_signal
from cluster.settings import load_settings
from indexer.documents.companies import Companies, companies_from_index, companies_from_source
from indexer.reporting.displays import progress_display
from mappings import COMPANY, RESOURCES

if TYPE_CHECKING:
    from collections.abc import Collection

    from indexer.errors import InvalidRecordError
    from indexer.source.lines import SourceLine
    from mappings import Resource

# Printed by a dry run. The dead-letter file of a real run has all of them.
_MAX_ERRORS_SHOWN = 20
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Check the source without writing anything.")


@click.command(
    epilog=epilog(
        "brokerage index reindex data",
        "brokerage index reindex data listings sold_listings --dry-run",
        "brokerage index reindex listings-2026-11-21.ndjson.gz --json",
        exits=INDEX_EXITS,
    )
)
@click.argument("source", shell_complete=files)
@click.argument("resources", nargs=-1, type=RESOURCE_CHOICE, metavar="[RESOURCE]...")
@click.option("--force", is_flag=True, help="Swap even if a safety check objects, and report the objection.")
@_DRY_RUN
@JSON_OPTION
def reindex(*, source: str, resources: tuple[str, ...], force: bool, dry_run: bool, as_json: bool) -> None:
    """Rebuild indices from SOURCE and swap each one in after verification. Updates may run meanwhile.

    SOURCE must be complete: records that it lacks are deleted. It is a folder with companies.ndjson, offices.ndjson,
    agents.ndjson, teams.ndjson, listings.ndjson and sold_listings.ndjson, each of which is optional and may be .gz or
    .zst; one such file; the .toml file of a column map over tables, or a folder of these; or - for standard input. An
    interrupted build resumes. Invalid records go to a dead-letter file.
    """
    chosen = [RESOURCES_BY_NAME[name] for name in resources] or RESOURCES
    default = RESOURCES_BY_NAME[resources[0]] if len(resources) == 1 else None
    with (
        exit_on_error(),
        exit_on_indexer_error(),
        exit_on_signal(),
        open_configured_source(source, default) as opened,
    ):
        # Reads standard input to its end, here where a signal stops it at once.
        opened.has(chosen[0])
        if dry_run:
            _dry_run(opened, chosen, as_json=as_json)
        with progress_display(as_json=as_json) as shown:
            work = partial(indexer.reindex, source=opened, resources=chosen, force=force, on_progress=shown.show)
            summary = run_on_cluster(work, stopped="Stopped: the build is kept, and the same command resumes it.")
    shown.finish(summary)
    _exit(summary)


@click.command(
    epilog=epilog(
        "brokerage index update changes.ndjson.zst",
        "producer | brokerage index update - --resource listings",
        exits=INDEX_EXITS,
    )
)
@click.argument("source", shell_complete=files)
@click.option("--resource", type=RESOURCE_CHOICE, help="Resource of lines that do not name one.")
@_DRY_RUN
@JSON_OPTION
def update(*, source: str, resource: str | None, dry_run: bool, as_json: bool) -> None:
    """Apply the records and deletions of SOURCE to the live indices, in any order.

    SOURCE is as for reindex; - applies lines from standard input as they arrive. A line is an envelope, which must have
    a "resource" unless its file or --resource names one. An older version never overwrites a newer one, so a source can
    be applied again at any time.
    """
    default = RESOURCES_BY_NAME[resource] if resource else None
    with (
        exit_on_error(),
        exit_on_indexer_error(),
        exit_on_signal(),
        open_configured_source(source, default) as opened,
    ):
        if dry_run:
            _dry_run(opened, RESOURCES, as_json=as_json)
        with progress_display(as_json=as_json) as shown:
            work = partial(indexer.update, source=opened, on_progress=shown.show)
            summary = run_on_cluster(
                work, stopped="Stopped: applied records stay, and the same command applies the rest."
            )
    shown.finish(summary)
    _exit(summary)


def _dry_run(source: indexer.Source, resources: Collection[Resource], *, as_json: bool) -> NoReturn:
    """Check a source without writing, and exit."""
    errors: list[str] = []
    settings = load_settings(indexer.IndexerSettings, os.environ)

    def record_error(line: SourceLine, error: InvalidRecordError) -> None:
        if len(errors) < _MAX_ERRORS_SHOWN:
            errors.append(f"{line.file}:{line.number}: {error}")

    known = companies_from_source(source, settings) if source.has(COMPANY) else run_on_cluster(_live_companies)
    with progress_display(as_json=as_json) as shown:
        summary = indexer.dry_run(source, known, record_error, settings, resources=resources, on_progress=shown.show)
    shown.finish(summary)
    for line in errors:
        print_error_line(line)
    if more := sum(report.dead for report in summary.resources) - len(errors):
        print_error_line(f"{more:,} more errors are not shown.")
    raise SystemExit(summary.exit_code)


async def _live_companies(context: indexer.IndexerContext) -> Companies:
    return await companies_from_index(context.client, context.connection.alias(COMPANY))


def _exit(summary: indexer.RunSummary) -> NoReturn:
    """Print one sentence for each resource with a problem, and exit."""
    for report in summary.resources:
        for objection in report.overridden:
            print_error_line(f"Overridden: {objection}.")
        for warning in report.warnings:
            print_error_line(f"Warning: {warning}.")
        if summary_line := failure_summary(report):
            print_error_line(summary_line)
    raise SystemExit(summary.exit_code)


def failure_summary(report: indexer.ResourceReport) -> str | None:
    """Return the problem of a run in one sentence, or None."""
    if report.refusal or not report.dead:
        return report.refusal
    kept = f" {report.kept} of them stay live as they were." if report.kept else ""
    return (
        f"{report.dead} of {report.read} {report.resource} are invalid and were not loaded: "
        f"see {report.dead_letters}.{kept}"
    )
