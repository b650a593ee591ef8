"""`brokerage pull`: keep a copy of what a key may read, complete, current and proven."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NoReturn

import rich_click as click

from brokerage.examples import ending
from brokerage.failures import told_plainly
from brokerage.pull_options import Resources, given_key
from brokerage.pull_run import Wanted, end, explained, pulled
from brokerage.pull_settings import PullSettings
from brokerage.stopping import stoppable
from cluster.settings import read
from consumer.answers import RESOURCES
from consumer.copies.export import FORMATS
from consumer.progress import display


@click.command(
    epilog=ending(
        "brokerage pull copy --url https://api.example.com",
        "brokerage pull copy --url https://api.example.com --follow",
        "brokerage pull copy --url http://127.0.0.1:8080 --resources listings,agents",
        exits="0 complete and equal, 1 refused, or not equal or not settled when verified, 2 wrong usage or settings, "
        "3 the service is away, 4 another pull works in DIR, 5 a difference was found and mended, 130 and 143 stopped",
    )
)
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.option("--url", required=True, help="Root of the service, with or without /v1.")
@click.option(
    "--key-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File that holds the API key, else BROKERAGE_API_KEY does. There is no option for the key itself: every "
    "user of a machine sees the arguments of commands, and shells keep them.",
)
@click.option("--company", metavar="ID", help="Only of this company (platform_company_id).")
@click.option("--parent-company", metavar="ID", help="Only of the companies below this one (parent_company_id).")
@click.option(
    "--resources",
    type=Resources(),
    default=",".join(RESOURCES),
    show_default="all",
    help="What to copy, separated by commas.",
)
@click.option(
    "--market-status", type=click.Choice(["all", "on-market"]), default="all", help="Listings: all, or on the market."
)
@click.option("--include-deactivated", is_flag=True, help="Agents and offices: also those that are deactivated.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["sqlite", *FORMATS]),
    default="sqlite",
    help="Files to write beside copy.sqlite3. parquet needs the extra brokerage[parquet].",
)
@click.option("--once/--follow", "is_once", default=True, help="End when the copy is current, or go on with it.")
@click.option("--verify/--no-verify", "is_verified", default=True, help="Compare digests with the service.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines instead of bars.")
def pull(directory: Path, key_file: Path | None, *, as_json: bool, **options: Any) -> NoReturn:
    """Keep a copy of what an API key may read in DIR: a snapshot first, then what changes.

    The copy is DIR/copy.sqlite3, a table for each resource, and can be read at any time. Whatever kills this command,
    the copy stays whole and the same command goes on with it. Digests prove that it is what the service has; what
    differs is named and taken anew.
    """
    with told_plainly():
        settings = read(PullSettings, os.environ)
        wanted = Wanted(directory, given_key(settings, key_file), settings, **options)
    with explained(), stoppable("Stopped: the copy is whole, and the same command goes on with it."):
        with display(as_json=as_json) as shown:
            standings = pulled(wanted, shown)
        shown.finish(standings)
    end(standings)
