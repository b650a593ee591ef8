"""`brokerage settings`: every environment variable, its value, where it comes from and what it does."""

from __future__ import annotations

import os

import rich_click as click
from rich.table import Table

from brokerage.failures import told_plainly
from brokerage.kinds import KINDS, refuse_strangers
from brokerage.tables import show
from cluster.settings import describe


@click.command()
def settings() -> None:
    """List all settings. Each may also be given by a file that VARIABLE_FILE names.

    Variables that begin with BROKERAGE_ and are no setting are told at the end; other commands refuse to start.
    """
    table = Table(box=None, pad_edge=False)
    table.add_column("Variable", no_wrap=True)
    for column in ("Value", "From", "Meaning"):
        table.add_column(column, overflow="fold")
    with told_plainly(strictly=False):
        for kind in KINDS:
            for shown in describe(kind, os.environ):
                table.add_row(shown.variable, shown.value, shown.origin, shown.note)
        show(table)
        refuse_strangers(os.environ)
