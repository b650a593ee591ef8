"""`brokerage index reindex` and `brokerage index update`: what comes in."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NoReturn

import rich_click as click

import indexer
from brokerage.completion import files
from brokerage.examples import LOADING, ending
from brokerage.failures import told_plainly
from brokerage.index_run import AS_JSON, NAMES, RESOURCE, explained, on_error_stream, run
from brokerage.stopping import stoppable
from indexer.companies import Companies, from_index, from_source
from indexer.progress import display
from mappings import COMPANY, RESOURCES

if TYPE_CHECKING:
    from collections.abc import Collection

    from indexer.errors import ItemError
    from indexer.source import Line
    from mappings import Resource

# More faults than these say nothing new; the dead-letter file of a real run has them all.
_FAULTS_SHOWN = 20
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Read and check the source, and write nothing.")


@click.command(
    epilog=ending(
        "brokerage index reindex data",
        "brokerage index reindex data listings sold_listings --dry-run",
        "brokerage index reindex listings-2026-11-21.ndjson.gz --json",
        exits=LOADING,
    )
)
@click.argument("source", shell_complete=files)
@click.argument("resources", nargs=-1, type=RESOURCE, metavar="[RESOURCE]...")
@click.option("--force", is_flag=True, help="Swap although the gate objects, and say what was overridden.")
@_DRY_RUN
@AS_JSON
def reindex(*, source: str, resources: tuple[str, ...], force: bool, dry_run: bool, as_json: bool) -> None:
    """Rebuild from SOURCE and swap each resource in once it is proven; updates may go on meanwhile.

    SOURCE says everything there is: what it lacks is deleted. It is a folder with companies.ndjson, offices.ndjson,
    agents.ndjson, teams.ndjson, listings.ndjson and sold_listings.ndjson, each of which may be absent, .gz or .zst; one
    such file; the .toml file of a column map over a CSV; or - for standard input. A build that was killed is gone on
    with. Bad records go to a dead-letter file.
    """
    chosen = [NAMES[name] for name in resources] or RESOURCES
    default = NAMES[resources[0]] if len(resources) == 1 else None
    with told_plainly(), explained(), stoppable(), indexer.open_source(source, resource=default) as opened:
        # Standard input is read to its end here, where a signal stops that at once.
        opened.has(chosen[0])
        if dry_run:
            _check(opened, chosen, as_json=as_json)
        with display(as_json=as_json) as shown:
            work = partial(indexer.reindex, source=opened, resources=chosen, force=force, on_progress=shown.show)
            summary = run(work, stopped="Stopped: the build is kept, and the same command goes on with it.")
    shown.finish(summary)
    _end(summary)


@click.command(
    epilog=ending(
        "brokerage index update changes.ndjson.zst",
        "producer | brokerage index update - --resource listings",
        exits=LOADING,
    )
)
@click.argument("source", shell_complete=files)
@click.option("--resource", type=RESOURCE, help="Of lines that name none, in a file or standard input.")
@_DRY_RUN
@AS_JSON
def update(*, source: str, resource: str | None, dry_run: bool, as_json: bool) -> None:
    """Apply the records and deletions of SOURCE to what is live, in whatever order they come.

    SOURCE is as for reindex; - takes lines from standard input as they come. A line is an envelope, with "resource" in
    it where neither its file nor --resource says of what it is. An older version never overwrites a newer one, so that
    a source may be applied again at any time.
    """
    default = NAMES[resource] if resource else None
    with told_plainly(), explained(), stoppable(), indexer.open_source(source, resource=default) as opened:
        if dry_run:
            _check(opened, RESOURCES, as_json=as_json)
        with display(as_json=as_json) as shown:
            work = partial(indexer.update, source=opened, on_progress=shown.show)
            summary = run(work, stopped="Stopped: what was applied stays, and the same command goes on with the rest.")
    shown.finish(summary)
    _end(summary)


def _check(source: indexer.Source, resources: Collection[Resource], *, as_json: bool) -> NoReturn:
    """Read a source without writing, and end."""
    faults: list[str] = []

    def keep(line: Line, error: ItemError) -> None:
        if len(faults) < _FAULTS_SHOWN:
            faults.append(f"{line.file}:{line.number}: {error}")

    known = from_source(source) if source.has(COMPANY) else run(_live_companies)
    with display(as_json=as_json) as shown:
        summary = indexer.dry_run(source, known, keep, resources=resources, on_progress=shown.show)
    shown.finish(summary)
    for fault in faults:
        on_error_stream(fault)
    if more := sum(report.dead for report in summary.resources) - len(faults):
        on_error_stream(f"{more:,} more faults are not shown.")
    raise SystemExit(summary.exit_code)


async def _live_companies(engine: indexer.Engine) -> Companies:
    return await from_index(engine.client, engine.connection.alias(COMPANY))


def _end(summary: indexer.Summary) -> NoReturn:
    """Complain in one sentence per resource that has something to complain about, and end."""
    for report in summary.resources:
        for objection in report.overridden:
            on_error_stream(f"Overridden: {objection}.")
        if said := complaint(report):
            on_error_stream(said)
    raise SystemExit(summary.exit_code)


def complaint(report: indexer.ResourceReport) -> str | None:
    """Return what a run has to complain about in one sentence, None for nothing."""
    if report.refusal or not report.dead:
        return report.refusal
    return f"{report.dead} of {report.read} {report.resource} are bad and not served: see {report.dead_letters}."
