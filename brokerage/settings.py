"""`brokerage settings`: every setting, its value, origin and meaning."""

import os
from dataclasses import asdict
from inspect import getdoc

import orjson
import rich_click as click
from rich.table import Table
from rich.text import Text

from brokerage.command_runs import exit_on_error
from brokerage.help import epilog
from brokerage.settings_types import reject_unknown_settings, settings_types
from brokerage.tables import plain_table, print_table
from brokerage_feed.terminal import echo
from cluster.settings import describe_settings


@click.command(
    epilog=epilog(
        "brokerage settings", "brokerage settings --json", exits="0 all valid, 2 an invalid or unknown setting"
    )
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def settings(*, as_json: bool) -> None:
    """List all settings, with secrets masked. VARIABLE_FILE can name a file with the value of VARIABLE.

    Unknown variables that begin with BROKERAGE_ are reported at the end; other commands refuse to start with them.
    """
    with exit_on_error(reject_unknown=False):
        if as_json:
            described = [
                {"group": _group_name(kind), **asdict(setting)}
                for kind in settings_types(os.environ)
                for setting in describe_settings(kind, os.environ)
            ]
            echo(orjson.dumps(described))
        else:
            print_table(_table())
        reject_unknown_settings(os.environ)


def _group_name(kind: type[object]) -> str:
    """Return the name of a group of settings: `service` of ServiceSettings."""
    return kind.__name__.removesuffix("Settings").lower()


def _table() -> Table:
    folded = "Value", "From", "Meaning"
    table = plain_table("Variable", *folded, folded=folded)
    for kind in settings_types(os.environ):
        table.add_row(Text(_group_name(kind), style="bold"), "", "", (getdoc(kind) or "").partition("\n")[0])
        for setting in describe_settings(kind, os.environ):
            table.add_row(setting.variable, Text(setting.value), setting.origin, setting.note)
    return table
