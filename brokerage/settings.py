"""`brokerage settings`: every environment variable, its value, where it comes from and what it does."""

from __future__ import annotations

import os
from dataclasses import asdict
from inspect import getdoc

import orjson
import rich_click as click
from rich.table import Table
from rich.text import Text

from brokerage.examples import ending
from brokerage.failures import told_plainly
from brokerage.kinds import KINDS, refuse_strangers
from brokerage.tables import show
from cluster.settings import describe


@click.command(
    epilog=ending(
        "brokerage settings", "brokerage settings --json", exits="0 all can be used, 2 one cannot, or is unknown"
    )
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def settings(*, as_json: bool) -> None:
    """List all settings, secrets masked. Each may also be given by a file that VARIABLE_FILE names.

    Variables that begin with BROKERAGE_ and are no setting are told at the end; other commands refuse to start.
    """
    with told_plainly(strictly=False):
        if as_json:
            told = [{"group": _name(kind), **asdict(each)} for kind in KINDS for each in describe(kind, os.environ)]
            click.echo(orjson.dumps(told).decode())
        else:
            show(_table())
        refuse_strangers(os.environ)


def _name(kind: type[object]) -> str:
    """Return the name of a group of settings: `service` of ServiceSettings."""
    return kind.__name__.removesuffix("Settings").lower()


def _table() -> Table:
    """Return all settings below the names of their groups, each of which says what it is about."""
    table = Table(box=None, pad_edge=False)
    table.add_column("Variable", no_wrap=True)
    for column in ("Value", "From", "Meaning"):
        table.add_column(column, overflow="fold")
    for kind in KINDS:
        table.add_row(Text(_name(kind), style="bold"), "", "", (getdoc(kind) or "").partition("\n")[0])
        for each in describe(kind, os.environ):
            table.add_row(each.variable, Text(each.value), each.origin, each.note)
    return table
