"""What the commands of `brokerage index` share: options, the connection, and how failures are told."""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import rich_click as click

import indexer
from brokerage.failures import Exit, fail, told_plainly
from brokerage.stopping import cancelled_by_signals, stoppable
from cluster.connection import ConnectionSettings, connect
from cluster.settings import read
from mappings import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    Work = Callable[[indexer.Engine], Awaitable["Result"]]

Result = TypeVar("Result")

_TIMEOUT_SECONDS = 120.0
# Beside the bulk requests: look-ups, scans, and the heartbeats of the locks.
_MORE_CONNECTIONS = 6

NAMES = {resource.alias: resource for resource in RESOURCES}
RESOURCE = click.Choice(list(NAMES))
AS_JSON = click.option("--json", "as_json", is_flag=True, help="JSON instead of tables and bars.")
YES = click.option("--yes", is_flag=True, help="Do it without asking.")


def on_error_stream(sentence: str) -> None:
    """Tell people something beside what standard output holds."""
    click.echo(sentence, err=True)


def run(work: Work[Result], *, stopped: str = "Stopped.") -> Result:
    """Do something with the cluster of the settings; a failure ends the command with a sentence and its exit code.

    `stopped` is the sentence for a command that is ended by SIGINT or SIGTERM.
    """

    async def connected() -> Result:
        connection = read(ConnectionSettings, os.environ)
        settings = read(indexer.IndexerSettings, os.environ)
        connections = settings.bulks_in_flight + _MORE_CONNECTIONS
        with cancelled_by_signals():
            async with connect(connection, connections=connections, timeout=_TIMEOUT_SECONDS) as client:
                return await work(indexer.Engine(client, connection, settings))

    with told_plainly(), explained(), stoppable(stopped):
        return asyncio.run(connected())


@contextmanager
def explained() -> Iterator[None]:
    """Turn what can stop the indexer into its sentence and its exit code."""
    try:
        yield
    except indexer.IndexerError as error:
        fail(str(error), Exit(error.exit_code))
