"""`brokerage index`: load what is served, look at it, prove it, step back, tidy up."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

import orjson
import rich_click as click

import indexer
from brokerage.examples import LOADING, ending
from brokerage.index_load import reindex, update
from brokerage.index_replicate import replicate
from brokerage.index_replications import replication_table
from brokerage.index_run import AS_JSON, NAMES, RESOURCE, YES, on_error_stream, run
from brokerage.index_table import notes, status_tables
from brokerage.index_verify import verify
from brokerage.tables import show


@click.group(
    epilog=ending(
        "brokerage index reindex data",
        "brokerage index update changes.ndjson.gz",
        "brokerage index status",
        exits=LOADING,
    )
)
def index() -> None:
    """Load and look after the indices that the service reads."""


for command in (reindex, update, replicate, verify):
    index.add_command(command)


@index.command(epilog=ending("brokerage index status", "brokerage index status --json", exits=LOADING))
@AS_JSON
def status(*, as_json: bool) -> None:
    """Show what there is: generations, records, deletions, sizes, shapes, what was last done and what is unfinished."""
    states = run(indexer.status)
    if as_json:
        click.echo(orjson.dumps([asdict(state) for state in states], default=_plain).decode())
        return
    followed = {source.name: source for state in states for source in state.sources}
    for table in (*status_tables(states), *replication_table(followed.values())):
        show(table)
        click.echo()
    for note in notes(states):
        click.echo(note)


def _plain(value: object) -> object:
    return {name: getattr(value, name) for name in value.__struct_fields__}  # type: ignore[attr-defined]


@index.command(
    epilog=ending("brokerage index rollback listings", "brokerage index rollback agents --yes", exits=LOADING)
)
@click.argument("resource", type=RESOURCE, metavar="RESOURCE")
@YES
@AS_JSON
def rollback(*, resource: str, yes: bool, as_json: bool) -> None:
    """Bring back the generation that the live one of RESOURCE replaced, with the updates since then."""
    live, target = run(partial(indexer.previous, resource=NAMES[resource]))
    _confirm(
        f"{resource} is served from {live} and will be served from {target}, with every update since {live} went live. "
        f"What the build of {live} brought is undone.",
        yes=yes,
    )
    restored = run(partial(indexer.rollback, resource=NAMES[resource], on_wait=on_error_stream))
    _say(as_json, {"resource": resource, "live": restored}, f"{resource} is served from {restored}.")


@index.command(epilog=ending("brokerage index prune", "brokerage index prune --yes --json", exits=LOADING))
@YES
@AS_JSON
def prune(*, yes: bool, as_json: bool) -> None:
    """Delete what is superfluous: generations beyond those kept, left-overs of builds, tombstones past their days.

    BROKERAGE_KEPT_GENERATIONS and BROKERAGE_TOMBSTONE_DAYS say how much is kept.
    """
    names, tombstones = run(indexer.superfluous)
    if names or tombstones:
        _confirm(f"{', '.join(names) or 'No index'} and {_counted(tombstones)} will be deleted.", yes=yes)
        names, tombstones = run(partial(indexer.prune, on_wait=on_error_stream))
    deleted = f"Deleted: {', '.join(names) or 'no index'}, {_counted(tombstones)}."
    _say(as_json, {"deleted": names, "tombstones": tombstones}, deleted)


def _counted(tombstones: int) -> str:
    return "1 tombstone" if tombstones == 1 else f"{tombstones:,} tombstones"


def _confirm(sentence: str, *, yes: bool) -> None:
    if not yes:
        click.confirm(f"{sentence} Go on?", abort=True, err=True)


def _say(as_json: bool, value: dict[str, object], sentence: str) -> None:  # noqa: FBT001 - passed on as is
    click.echo(orjson.dumps(value).decode() if as_json else sentence)
