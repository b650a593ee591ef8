"""`brokerage index rollback`, `restored` and `prune`: they ask before they change what is served or kept."""

from functools import partial

import orjson
import rich_click as click

import indexer
from brokerage.help_epilogs import INDEX_EXITS, epilog
from brokerage.index.index_runner import (
    JSON_OPTION,
    RESOURCE_CHOICE,
    RESOURCES_BY_NAME,
    YES_OPTION,
    print_error_line,
    run_on_cluster,
)
from brokerage.output import echo


@click.command(
    epilog=epilog("brokerage index rollback listings", "brokerage index rollback agents --yes", exits=INDEX_EXITS)
)
@click.argument("resource", type=RESOURCE_CHOICE, metavar="RESOURCE")
@YES_OPTION
@JSON_OPTION
def rollback(*, resource: str, yes: bool, as_json: bool) -> None:
    """Restore the previous generation of RESOURCE, with all updates since it was replaced."""
    live, target = run_on_cluster(partial(indexer.rollback_target, resource=RESOURCES_BY_NAME[resource]))
    _confirm(
        f"{resource} will be served from {target} instead of {live}, with every update since {live} went live. "
        f"The changes of the build of {live} itself are undone.",
        yes=yes,
    )
    restored = run_on_cluster(partial(indexer.rollback, resource=RESOURCES_BY_NAME[resource], on_wait=print_error_line))
    _print_result(as_json, {"resource": resource, "live": restored}, f"{resource} is now served from {restored}.")


@click.command(
    epilog=epilog("brokerage index restored", "brokerage index restored listings --yes --json", exits=INDEX_EXITS)
)
@click.argument("resources", type=RESOURCE_CHOICE, metavar="[RESOURCE]…", nargs=-1)
@YES_OPTION
@JSON_OPTION
def restored(*, resources: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Let consumers start again after a restore of Elasticsearch: by default of all resources.

    Run it once, after you have restored a snapshot, a disk or a whole cluster, and before the next update.
    """
    _confirm(
        f"Consumers of {', '.join(resources) or 'all resources'} will take new snapshots, because what they have read "
        "may be gone.",
        yes=yes,
    )
    chosen = [RESOURCES_BY_NAME[name] for name in resources or RESOURCES_BY_NAME]
    begun = run_on_cluster(partial(indexer.begin_new_lives, resources=chosen, on_wait=print_error_line))
    _print_result(as_json, {"resources": begun}, f"Consumers start again with {', '.join(begun)}.")


@click.command(epilog=epilog("brokerage index prune", "brokerage index prune --yes --json", exits=INDEX_EXITS))
@YES_OPTION
@JSON_OPTION
def prune(*, yes: bool, as_json: bool) -> None:
    """Delete old generations, leftovers of builds, and expired tombstones.

    In an index of several shards also the copies that records left behind when they changed their shard.

    BROKERAGE_KEPT_GENERATIONS and BROKERAGE_TOMBSTONE_DAYS set how much is kept.
    """
    found = run_on_cluster(indexer.prunable)
    if any(found):
        _confirm(f"{', '.join(found.indices) or 'No index'} and {_count_documents(found)} will be deleted.", yes=yes)
        found = run_on_cluster(partial(indexer.prune, on_wait=print_error_line))
    deleted = f"Deleted: {', '.join(found.indices) or 'no index'}, {_count_documents(found)}."
    counts = {"deleted": found.indices, "tombstones": found.tombstones, "copies": found.copies}
    _print_result(as_json, counts, deleted)


def _count_documents(found: indexer.Pruned) -> str:
    tombstones = "1 tombstone" if found.tombstones == 1 else f"{found.tombstones:,} tombstones"
    return f"{tombstones} and {found.copies:,} left copies" if found.copies else tombstones


def _confirm(sentence: str, *, yes: bool) -> None:
    if not yes:
        click.confirm(f"{sentence} Continue?", abort=True, err=True)


def _print_result(as_json: bool, value: dict[str, object], sentence: str) -> None:  # noqa: FBT001 - passed on as is
    echo(orjson.dumps(value).decode() if as_json else sentence)
