"""`brokerage index`: rebuild what is served, look at it, step back, tidy up."""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import orjson
import rich_click as click

import indexer
from brokerage.failures import Exit, fail, told_plainly
from brokerage.index_table import status_table
from brokerage.tables import show
from cluster.connection import ConnectionSettings, connect
from cluster.settings import read
from indexer.progress import display
from mappings import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from elasticsearch import AsyncElasticsearch

    _Work = Callable[[AsyncElasticsearch, ConnectionSettings, indexer.IndexerSettings], Awaitable["Result"]]

Result = TypeVar("Result")

_TIMEOUT_SECONDS = 120.0
_RESOURCES = {resource.alias: resource for resource in RESOURCES}
_AS_JSON = click.option("--json", "as_json", is_flag=True, help="JSON instead of tables and bars.")
_YES = click.option("--yes", is_flag=True, help="Do it without asking.")


@click.group()
def index() -> None:
    """Build and look after the indices that the service reads.

    Exit codes: 0 done, 1 bad records or a refused swap, 2 wrong usage, 3 Elasticsearch is away, 4 another run is busy.
    """


@index.command()
@click.argument("source", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("resources", nargs=-1, type=click.Choice(list(_RESOURCES)), metavar="[RESOURCE]...")
@_AS_JSON
def reindex(*, source: Path, resources: tuple[str, ...], as_json: bool) -> None:
    """Rebuild from the folder SOURCE and swap each resource in once it is verified.

    The folder holds companies.ndjson, offices.ndjson, agents.ndjson, teams.ndjson, listings.ndjson and
    sold_listings.ndjson, each of which may be absent, .gz or .zst. Bad records go to a dead-letter file.
    """
    chosen = [_RESOURCES[name] for name in resources] or RESOURCES
    with display(as_json=as_json) as shown:
        summary = _run(partial(indexer.reindex, source=source, resources=chosen, on_progress=shown.show))
    shown.finish(summary)
    for complaint in filter(None, map(_complaint, summary.resources)):
        click.echo(complaint, err=True)
    raise SystemExit(summary.exit_code)


def _complaint(report: indexer.ResourceReport) -> str | None:
    if report.refusal or not report.bad:
        return report.refusal
    return f"{report.bad} of {report.read} {report.resource} are bad and not served: see {report.dead_letters}."


@index.command()
@_AS_JSON
def status(*, as_json: bool) -> None:
    """Show what is live: generations, documents, sizes, and whether each index has the current shape."""
    states = _run(indexer.status)
    if as_json:
        click.echo(orjson.dumps([asdict(state) for state in states]).decode())
    else:
        show(status_table(states))


@index.command()
@click.argument("resource", type=click.Choice(list(_RESOURCES)), metavar="RESOURCE")
@_YES
@_AS_JSON
def rollback(*, resource: str, yes: bool, as_json: bool) -> None:
    """Bring back the generation that the live one of RESOURCE replaced."""
    live, target = _run(partial(indexer.previous, resource=_RESOURCES[resource]))
    _confirm(f"{resource} is served from {live} and will be served from {target}.", yes=yes)
    restored = _run(partial(indexer.rollback, resource=_RESOURCES[resource]))
    _say(as_json, {"resource": resource, "live": restored}, f"{resource} is served from {restored}.")


@index.command()
@_YES
@_AS_JSON
def prune(*, yes: bool, as_json: bool) -> None:
    """Delete generations beyond those kept (BROKERAGE_KEPT_GENERATIONS), and what failed builds left behind."""
    names = _run(indexer.superfluous)
    if names:
        _confirm(f"{', '.join(names)} will be deleted.", yes=yes)
        names = _run(indexer.prune)
    _say(as_json, {"deleted": names}, f"Deleted: {', '.join(names) or 'nothing'}.")


def _confirm(sentence: str, *, yes: bool) -> None:
    if not yes:
        click.confirm(f"{sentence} Go on?", abort=True, err=True)


def _say(as_json: bool, value: dict[str, object], sentence: str) -> None:  # noqa: FBT001 - passed on as is
    click.echo(orjson.dumps(value).decode() if as_json else sentence)


def _run(work: _Work[Result]) -> Result:
    async def connected() -> Result:
        connection = read(ConnectionSettings, os.environ)
        settings = read(indexer.IndexerSettings, os.environ)
        # One connection for each bulk request, one for look-ups and one for the heartbeat of the lock.
        connections = settings.bulks_in_flight + 2
        async with connect(connection, connections=connections, timeout=_TIMEOUT_SECONDS) as client:
            return await work(client, connection, settings)

    with told_plainly(), _explained():
        return asyncio.run(connected())


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except indexer.IndexerError as error:
        fail(str(error), Exit(error.exit_code))
