"""`brokerage settings`: every setting, its value, origin and meaning."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from inspect import getdoc

import orjson
import rich_click as click

from brokerage.command_runs import exit_on_error
from brokerage.help import epilog
from brokerage.settings_types import reject_unknown_settings, settings_types
from brokerage.tables import Column, table_lines, terminal_width
from brokerage_feed.terminal import echo
from cluster.settings import DescribedSetting, describe_settings


@click.command(
    epilog=epilog(
        "brokerage settings",
        "brokerage settings redis",
        "brokerage settings --json",
        exits="0 all valid, 2 an invalid or unknown setting, or no setting with that word",
    )
)
@click.argument("word", default="")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def settings(word: str, *, as_json: bool) -> None:
    """List all settings, or those that contain WORD, with secrets masked.

    VARIABLE_FILE can name a file with the value of VARIABLE.

    Unknown variables that begin with BROKERAGE_ are reported at the end; other commands refuse to start with them.
    """
    with exit_on_error(reject_unknown=False):
        found = {
            kind: [setting for setting in describe_settings(kind, os.environ) if _matches(word, kind, setting)]
            for kind in settings_types(os.environ)
        }
        if not any(found.values()):
            raise click.UsageError(f"No setting contains {word!r}; `brokerage settings` lists all of them.")
        if as_json:
            echo(orjson.dumps([{"group": _group_name(kind), **asdict(one)} for kind in found for one in found[kind]]))
        else:
            for line in _lines(found):
                echo(line)
        reject_unknown_settings(os.environ)


def _matches(word: str, kind: type[object], setting: DescribedSetting) -> bool:
    """Return whether a setting, its meaning or its group has the word."""
    return word.lower() in f"{_group_name(kind)} {setting.variable} {setting.note}".lower()


def _group_name(kind: type[object]) -> str:
    """Return the name of a group of settings: `service` of ServiceSettings."""
    return kind.__name__.removesuffix("Settings").lower()


def _lines(found: Mapping[type[object], Sequence[DescribedSetting]]) -> Iterator[str]:
    """Yield a table of each group, all with the same columns."""
    columns = Column("Variable"), Column("Value", may_fold=True), Column("From"), Column("Meaning", may_fold=True)
    rows = [
        row
        for kind, described in found.items()
        if described
        for row in (
            (_group_name(kind).capitalize(), "", "", (getdoc(kind) or "").partition("\n")[0]),
            *((setting.variable, setting.value, setting.origin, setting.note) for setting in described),
        )
    ]
    return table_lines(columns, rows, terminal_width())
