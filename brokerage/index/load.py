"""`brokerage index reindex` and `brokerage index update`: load records from a source."""

import os
import sys
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import NoReturn

import rich_click as click

import indexer
from brokerage.completion import files
from brokerage.help import INDEX_EXITS, epilog
from brokerage.index.runner import (
    ALL_COMPANIES_OPTION,
    COMPANY_OPTION,
    JSON_OPTION,
    RESOURCE_CHOICE,
    RESOURCES_BY_NAME,
    coverage_request,
    exit_on_failure,
    open_configured_source,
    print_error_line,
    run_on_cluster,
)
from brokerage_feed.terminal import exit_on_signal
from cluster.settings import load_settings
from cluster.terminal import counted
from indexer.documents.companies import Companies, CoverageRequest, companies_from_index, companies_from_source
from indexer.reporting.displays import kept_line, problem_lines, progress_display
from indexer.reporting.report import FaultTally, RunStage, fault_lines
from mappings import COMPANY, RESOURCES, Resource

# Printed by a dry run. The dead-letter file of a real run has every fault.
_MAX_KINDS_SHOWN = 20
_PROCESSES = click.option(
    "--processes",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Processes of this host that load the lines; several are started in addition to this one.",
)
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Check the source without writing anything.")


@click.command(
    epilog=epilog(
        "brokerage index reindex data",
        "brokerage index reindex data listings sold_listings --dry-run",
        "brokerage index reindex data --company acme",
        "brokerage index reindex data --processes 4",
        "brokerage index reindex listings-2026-11-21.ndjson.gz --json",
        exits=INDEX_EXITS,
    )
)
@click.argument("source", shell_complete=files)
@click.argument("resources", nargs=-1, type=RESOURCE_CHOICE, metavar="[RESOURCE]...")
@click.option("--force", is_flag=True, help="Go live although a check failed, and report it; uses the refused build.")
@COMPANY_OPTION
@ALL_COMPANIES_OPTION
@_PROCESSES
@_DRY_RUN
@JSON_OPTION
def reindex(  # noqa: PLR0913 - one parameter for each option
    *,
    source: str,
    resources: tuple[str, ...],
    force: bool,
    companies: tuple[str, ...],
    all_companies: bool,
    processes: int,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Replace the records of the companies that SOURCE covers, and go live with all of them after checks.

    SOURCE covers the companies of --company, or those that it declares, or those that it holds, and must be complete
    for them: records that it lacks are deleted. Records of other companies stay as they are. Updates may run at the
    same time. SOURCE is a folder with companies.ndjson, offices.ndjson, agents.ndjson, teams.ndjson, listings.ndjson
    and sold_listings.ndjson, each of which is optional and may be .gz or .zst; one such file; the .toml file of a
    column map over tables, or a folder of these; or - for standard input. An interrupted build resumes. Invalid records
    go to a dead-letter file. With BROKERAGE_PUBLISH_AFTER_SWAP, what is live then is published as files (`brokerage
    index publish`).
    """
    chosen = [RESOURCES_BY_NAME[name] for name in resources] or RESOURCES
    default = RESOURCES_BY_NAME[resources[0]] if len(resources) == 1 else None
    covered = coverage_request(companies, is_all=all_companies)
    with (
        exit_on_failure(),
        exit_on_signal(),
        open_configured_source(source, default) as opened,
    ):
        publication = publication_after_swap(companies, as_json=as_json)
        # Reads standard input to its end, here where a signal stops it at once.
        opened.has(chosen[0])
        if dry_run:
            if processes > 1:
                print_error_line("Note: a dry run reads with one process, without --processes.")
            if force:
                print_error_line("Note: a dry run only checks lines, so --force changes nothing.")
            _dry_run(opened, chosen, covered, as_json=as_json)
        request = indexer.RebuildRequest(chosen, covered, force, processes, questions_first_loads=True)
        summary = rebuild(opened, request, as_json=as_json)
        first = [RESOURCES_BY_NAME[report.resource] for report in summary.resources if report.is_first_load]
        if first and not as_json and sys.stdin.isatty() and click.confirm("Load the other lines?", err=True):
            summary = rebuild(opened, replace(request, tolerated=first), as_json=as_json)
    if publication is not None and summary.resources_at(RunStage.SWAPPED):
        publication()
    raise SystemExit(summary.exit_code)


def publication_after_swap(companies: tuple[str, ...], *, as_json: bool) -> Callable[[], None] | None:
    """Return what publishes companies after a swap, None if nothing is to.

    Raises UsageError if there is no place to publish to, so that the run fails before it builds.
    """
    if not load_settings(indexer.IndexerSettings, os.environ).publishes_after_swap:
        return None
    from brokerage.index.publish import configured_publication  # noqa: PLC0415 - a third of the start of a command

    return configured_publication(companies, as_json=as_json)


def rebuild(source: indexer.Source, request: indexer.RebuildRequest, *, as_json: bool) -> indexer.RunSummary:
    """Rebuild from an open source, and print progress, summary and problems."""
    with progress_display(as_json=as_json) as shown:
        work = partial(indexer.reindex, source=source, request=replace(request, on_progress=shown.show))
        summary = run_on_cluster(work, stopped="Stopped: the build is kept, and the same command resumes it.")
    shown.finish(summary)
    _print_problems(summary)
    return summary


@click.command(
    epilog=epilog(
        "brokerage index update changes.ndjson.zst",
        "producer | brokerage index update - --resource listings",
        exits=INDEX_EXITS,
    )
)
@click.argument("source", shell_complete=files)
@click.option("--resource", type=RESOURCE_CHOICE, help="Resource of lines that do not name one.")
@COMPANY_OPTION
@_DRY_RUN
@JSON_OPTION
def update(*, source: str, resource: str | None, companies: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Apply the records and deletions of SOURCE to the live indices, in any order.

    SOURCE is as for reindex; - applies lines from standard input as they arrive. A line has a record, its company and
    its time, and a "resource" unless its file or --resource names one. An older state never overwrites a newer one, so
    a source can be applied again at any time. With --company, or if SOURCE declares companies, lines of other companies
    and identifiers that another company has are invalid.
    """
    default = RESOURCES_BY_NAME[resource] if resource else None
    covered = coverage_request(companies)
    with (
        exit_on_failure(),
        exit_on_signal(),
        open_configured_source(source, default) as opened,
    ):
        if dry_run:
            _dry_run(opened, RESOURCES, covered, as_json=as_json)
        with progress_display(as_json=as_json) as shown:
            work = partial(indexer.update, source=opened, covered=covered, on_progress=shown.show)
            summary = run_on_cluster(
                work, stopped="Stopped: applied records stay, and the same command applies the rest."
            )
    shown.finish(summary)
    _print_problems(summary)
    raise SystemExit(summary.exit_code)


def _dry_run(
    source: indexer.Source, resources: Collection[Resource], covered: CoverageRequest, *, as_json: bool
) -> NoReturn:
    faults, settings = FaultTally(), load_settings(indexer.IndexerSettings, os.environ)
    live = None if source.has(COMPANY) else run_on_cluster(_live_companies)
    known = companies_from_source(source, settings, live, covered)
    with progress_display(as_json=as_json) as shown:
        summary = indexer.dry_run(source, known, faults.add_line, settings, resources=resources, on_progress=shown.show)
    shown.finish(summary)
    _print_notes(summary)
    kinds = faults.kinds()
    for line in fault_lines(kinds[:_MAX_KINDS_SHOWN]):
        print_error_line(line)
    if more := len(kinds[_MAX_KINDS_SHOWN:]):
        print_error_line(f"Not shown: {counted(more, 'more kind')} of faults.")
    raise SystemExit(summary.exit_code)


async def _live_companies(context: indexer.IndexerContext) -> Companies:
    return await companies_from_index(context)


def _print_notes(summary: indexer.RunSummary) -> None:
    for note in summary.notes:
        print_error_line(f"Note: {note}.")


def _print_problems(summary: indexer.RunSummary) -> None:
    _print_notes(summary)
    for report in summary.resources:
        for line in problem_lines(report):
            print_error_line(line)
    for sentence in filter(None, [kept_line(summary), *summary.problems]):
        print_error_line(sentence)
