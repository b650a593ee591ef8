"""`brokerage index status`: what the indices hold, and what state they are in."""

from dataclasses import asdict

import orjson
import rich_click as click

import indexer
from brokerage.console_tables import print_table
from brokerage.help_epilogs import INDEX_EXITS, epilog
from brokerage.index.index_runner import JSON_OPTION, run_on_cluster
from brokerage.index.replication_table import replication_table
from brokerage.index.status_table import status_notes, status_tables
from brokerage.output import echo


@click.command(epilog=epilog("brokerage index status", "brokerage index status --json", exits=INDEX_EXITS))
@JSON_OPTION
def status(*, as_json: bool) -> None:
    """Show generations, record counts, sizes, wear, mappings, the last run and unfinished builds of each resource."""
    states = run_on_cluster(indexer.status)
    if as_json:
        echo(orjson.dumps([asdict(state) for state in states], default=_plain).decode())
        return
    replications = {source.name: source for state in states for source in state.sources}
    for table in (*status_tables(states), *replication_table(replications.values())):
        print_table(table)
        echo()
    for note in status_notes(states):
        echo(note)


def _plain(value: object) -> object:
    return {name: getattr(value, name) for name in value.__struct_fields__}  # type: ignore[attr-defined]
