"""`brokerage index replicate`: copy a RESO Web API, and follow its changes.

With --probe: say what the API is like, and write a map to start from.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NoReturn

import rich_click as click
from click.core import ParameterSource

import indexer
from brokerage.completion import files
from brokerage.help import INDEX_EXITS, epilog
from brokerage.index.runner import JSON_OPTION, exit_on_failure, run_on_cluster
from brokerage_feed.terminal import echo, exit_on_signal
from cluster.settings import load_settings
from indexer.errors import SourceError
from indexer.reporting.displays import Display, failure_lines, progress_display
from indexer.reso.entity_forms import DELETIONS, LISTINGS, WITHOUT
from indexer.reso.probe import probe_source
from indexer.reso.replication import RoundResult, open_replication
from indexer.reso.settings import ResoSettings
from indexer.reso.source_map import AUTO, BY_EVENTS, BY_TIMESTAMPS, ReplicationPlan, profile_names, read_map
from service.background import running

_WITHDRAW_SECONDS = 60.0


@click.command(
    epilog=epilog(
        "brokerage index replicate https://mls.example.com --company acme",
        "brokerage index replicate https://mls.example.com --company acme --follow",
        exits=INDEX_EXITS,
    )
)
@click.argument("url")
@click.option("--probe", is_flag=True, help="Only say which profile fits and what is missing; write a map to --map.")
@click.option("--company", metavar="COMPANY", help="The company that the records belong to.")
@click.option(
    "--map",
    "map_file",
    type=click.Path(path_type=Path),
    shell_complete=files,
    help="TOML file with the mapping of non-standard fields.",
)
@click.option("--profile", type=click.Choice(profile_names()), help="The kind of source; the map, else generic.")
@click.option(
    "--system", default="", metavar="NAME", help="OriginatingSystemName of the MLS, where a source demands it."
)
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(sorted({*WITHOUT.values(), DELETIONS, LISTINGS})),
    help="Records to leave out, or a lack of them to accept; can be repeated.",
)
@click.option("--prefix", default="", help="Prefix for every key, if two sources may have the same keys.")
@click.option("--time-zone", help="Default time zone of open houses, such as America/Los_Angeles.")
@click.option(
    "--changes",
    type=click.Choice([AUTO, BY_EVENTS, BY_TIMESTAMPS]),
    default=AUTO,
    show_default=True,
    help="How to find changes; auto uses events if the source has them.",
)
@click.option("--sole", is_flag=True, help="The only source of the company: delete records that it lacks.")
@click.option("--once/--follow", "is_once", default=True, help="Run one round, or rounds until stopped.")
@JSON_OPTION
@click.pass_context
def replicate(  # noqa: PLR0913 - options
    context: click.Context,
    *,
    url: str,
    probe: bool,
    company: str | None,
    map_file: Path | None,
    profile: str | None,
    system: str,
    without: tuple[str, ...],
    prefix: str,
    time_zone: str | None,
    changes: str,
    sole: bool,
    is_once: bool,
    as_json: bool,
) -> None:
    """Copy listings, sold listings, agents, offices and teams from the RESO Web API at URL, and follow its changes.

    A source that conforms to Data Dictionary 2.0 needs no --map. Progress is kept in BROKERAGE_RESO_DIR: an interrupted
    run resumes. Credentials are settings: BROKERAGE_RESO_TOKEN, or BROKERAGE_RESO_TOKEN_URL with
    BROKERAGE_RESO_CLIENT_ID and BROKERAGE_RESO_CLIENT_SECRET.
    """
    if probe:
        _require_probe_options(context)
        _probe_and_exit(url, map_file, profile or "", system)
    if company is None:
        raise click.UsageError("Missing option '--company'.")
    with exit_on_failure(), exit_on_signal():
        settings = load_settings(ResoSettings, os.environ)
        source = read_map(map_file, profile or "", system)
        plan = ReplicationPlan(
            url,
            company,
            source.dictionary,
            source.declared,
            prefix,
            time_zone,
            changes,
            sole,
            source.dialect,
            frozenset(without),
            source.policy,
        )
        with progress_display(as_json=as_json) as shown:
            work = partial(_replicate, plan=plan, settings=settings, shown=shown, is_once=is_once)
            done = run_on_cluster(work, stopped="Stopped: progress is kept, and the same command resumes.")
    shown.finish(done.summary)
    raise SystemExit(done.summary.exit_code)


async def _replicate(
    context: indexer.IndexerContext,
    plan: ReplicationPlan,
    settings: ResoSettings,
    shown: Display,
    *,
    is_once: bool,
) -> RoundResult:
    def report(sentence: str) -> None:
        shown.note(sentence if is_once else f"{time.strftime('%H:%M:%S')} {sentence}")

    def report_wait(sentence: str) -> None:
        report(sentence)
        # Progress may go to a file. Without this line, a run that waits looks like one that hangs.
        if not sys.stdout.isatty() and sys.stderr.isatty():
            _say(sentence)

    async with (
        _withdrawing(context, report),
        open_replication(context, plan, settings, shown.show, report_wait) as rounds,
    ):
        while True:
            done = await rounds.run_round()
            failures = chain.from_iterable(map(failure_lines, done.summary.resources))
            for line in (*done.lines, *(f"{note}." for note in done.summary.notes), *done.summary.problems, *failures):
                report(line)
            if is_once:
                return done
            await asyncio.sleep(settings.poll_seconds)


@asynccontextmanager
async def _withdrawing(context: indexer.IndexerContext, report: Callable[[str], None]) -> AsyncIterator[None]:
    """Withdraw overdue records now and every minute, even while the source does not answer or a run waits."""

    async def withdraw() -> None:
        try:
            await indexer.withdraw(context)
        except (indexer.ElasticsearchError, indexer.LockedError) as error:
            report(str(error))

    async def repeat() -> None:
        while True:
            await asyncio.sleep(_WITHDRAW_SECONDS)
            await withdraw()

    await withdraw()
    async with running(repeat):
        yield


_NOT_PROBED = ("company", "without", "prefix", "time_zone", "changes", "sole", "is_once", "as_json")


def _require_probe_options(context: click.Context) -> None:
    """Raise UsageError for an option that a probe would ignore."""
    for parameter in context.command.params:
        is_given = context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
        if parameter.name in _NOT_PROBED and is_given:
            raise click.UsageError(f"{parameter.opts[0]} is not for --probe.")


def _probe_and_exit(url: str, map_file: Path | None, profile: str, system: str) -> NoReturn:
    """Print what a source is like, and write the map, to standard output without a file; never overwrite one."""
    with exit_on_failure():
        if map_file is not None and map_file.exists():
            raise SourceError(f"{map_file} exists: give --map a new file.")
        settings = load_settings(ResoSettings, os.environ)
        found = asyncio.run(probe_source(url, settings, _say, profile=profile, system=system))
        for line in found.lines:
            _say(line)
        if map_file is None:
            echo(found.map_text.rstrip("\n"))
        else:
            _write(map_file, found.map_text)
            _say(f"{map_file} has a map to start from.")
    raise SystemExit(0)


def _write(map_file: Path, text: str) -> None:
    try:
        map_file.write_text(text)
    except OSError as error:
        raise SourceError(f"{map_file} cannot be written: {error.strerror}.") from error


def _say(sentence: str) -> None:
    echo(sentence, err=True)
