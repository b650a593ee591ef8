"""What the commands of `brokerage index` share: options, the connection, and the reporting of errors."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import orjson
import rich_click as click

import indexer
from brokerage.command_runs import exit_on_error
from brokerage_feed.terminal import ExitCode, cancel_on_signal, echo, exit_on_signal, fail
from cluster.connection import ConnectionSettings, connect
from cluster.settings import load_settings
from indexer.documents.companies import CoverageRequest
from indexer.source.tables.table_source import TableSource
from mappings import RESOURCES, Resource

Result = TypeVar("Result")


Work = Callable[[indexer.IndexerContext], Awaitable[Result]]


_TIMEOUT_SECONDS = 120.0
# In addition to bulk requests: look-ups, scans, and lock heartbeats.
_EXTRA_CONNECTIONS = 6

RESOURCES_BY_NAME = {resource.alias: resource for resource in RESOURCES}
RESOURCE_CHOICE = click.Choice(list(RESOURCES_BY_NAME))
JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables and progress bars.")
COMPANY_OPTION = click.option(
    "--company",
    "companies",
    multiple=True,
    metavar="C",
    help="A company that SOURCE covers, by key or numeric id; repeatable. Default: those that it declares or holds.",
)
ALL_COMPANIES_OPTION = click.option(
    "--all-companies", is_flag=True, help="SOURCE covers all companies: records of companies that it lacks count too."
)
YES_OPTION = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def coverage_request(companies: tuple[str, ...], *, is_all: bool = False) -> CoverageRequest:
    """Return what the options ask a run to cover; raise UsageError for both of them."""
    if companies and is_all:
        raise click.UsageError("Give --company or --all-companies, not both.")
    return CoverageRequest(companies, is_all)


def print_error_line(sentence: str) -> None:
    echo(sentence, err=True)


def print_note(sentence: str, *, as_json: bool) -> None:
    """Print what the operator should know: as an event among JSON lines, else on standard error."""
    if as_json:
        echo(orjson.dumps({"event": "note", "note": sentence}))
    else:
        print_error_line(sentence)


def run_on_cluster(work: Work[Result], *, stopped: str = "Stopped.") -> Result:
    """Run `work` on the configured cluster; on failure, exit with one sentence and the exit code.

    `stopped` is the sentence after SIGINT or SIGTERM.
    """

    async def run() -> Result:
        connection = load_settings(ConnectionSettings, os.environ)
        settings = load_settings(indexer.IndexerSettings, os.environ)
        connections = settings.bulks_in_flight + _EXTRA_CONNECTIONS
        with cancel_on_signal():
            async with connect(connection, connections=connections, timeout=_TIMEOUT_SECONDS) as client:
                return await work(indexer.IndexerContext(client, connection, settings))

    with exit_on_failure(), exit_on_signal(stopped):
        return asyncio.run(run())


@contextmanager
def open_configured_source(name: str, resource: Resource | None) -> Iterator[indexer.Source]:
    """Open a source with the configured limit of a line; `resource` is the default of its lines.

    What was detected in tables is printed on standard error.
    """
    settings = load_settings(indexer.IndexerSettings, os.environ)
    with indexer.open_source(name, resource=resource, max_record_bytes=settings.max_record_bytes) as source:
        for note in source.notes if isinstance(source, TableSource) else ():
            print_error_line(f"Note: {note}.")
        yield source


@contextmanager
def exit_on_failure() -> Iterator[None]:
    """Turn errors of settings, of the cluster and of the indexer into one sentence and their exit code."""
    with exit_on_error():
        try:
            yield
        except indexer.IndexerError as error:
            fail(str(error), ExitCode(error.exit_code))
