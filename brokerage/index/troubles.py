"""`brokerage index troubles`: the records that are not served as their source says."""

import datetime as dt
from collections.abc import Sequence
from typing import NoReturn

import msgspec
import orjson
import rich_click as click
from rich.table import Table

import indexer
from brokerage.help import epilog
from brokerage.index.runner import JSON_OPTION, RESOURCE_CHOICE, RESOURCES_BY_NAME, print_error_line, run_on_cluster
from brokerage.tables import plain_table, print_table
from brokerage_feed.terminal import ExitCode, echo
from indexer.troubles import ListedTrouble
from mappings import RESOURCES, Resource

_COLUMNS = ("Resource", "Company", "Record", "Since, UTC", "Served", "Field", "Reason", "Read from")


@click.command(
    epilog=epilog(
        "brokerage index troubles",
        "brokerage index troubles listings --company acme --json",
        "brokerage index troubles listings --dismiss L-1",
        "brokerage index troubles --withdraw",
        exits="0 the list is empty, or all of it is dismissed, or --withdraw is done, 1 a record is on the list, or "
        "with --dismiss is not, 2 usage error, 3 Elasticsearch unavailable",
    )
)
@click.argument("resources", nargs=-1, type=RESOURCE_CHOICE, metavar="[RESOURCE]...")
@click.option("--company", metavar="C", help="Only records of this company, by key.")
@click.option(
    "--dismiss",
    multiple=True,
    metavar="ID",
    help="Accept what is served of a record of RESOURCE until its line is wrong in another way; repeatable.",
)
@click.option(
    "--withdraw",
    is_flag=True,
    help="Withdraw now what has been on the list for BROKERAGE_TROUBLE_HOURS, without a source; for a scheduler.",
)
@JSON_OPTION
def troubles(
    *, resources: tuple[str, ...], company: str | None, dismiss: tuple[str, ...], withdraw: bool, as_json: bool
) -> None:
    """List the records whose newest line could not be read, so that they are not served as their source says.

    A record leaves the list when a later line of it is served, or when a full source has it in a readable form or lacks
    it. BROKERAGE_TROUBLE_POLICY and BROKERAGE_TROUBLE_HOURS say what is served of it until then.
    """
    if dismiss and withdraw:
        raise click.UsageError("Give --dismiss or --withdraw, not both.")
    if dismiss:
        _dismiss(resources, dismiss, company, as_json=as_json)
    chosen = [RESOURCES_BY_NAME[name] for name in resources] or RESOURCES
    if withdraw:
        _withdraw(chosen, company, as_json=as_json)
    listed = run_on_cluster(lambda context: indexer.troubles(context, chosen, company))
    if as_json:
        echo(orjson.dumps([msgspec.to_builtins(entry.trouble) | {"served": entry.served} for entry in listed]))
    elif listed:
        print_table(_table(listed))
    else:
        echo("Every record is served as its source says.")
    raise SystemExit(int(any(entry.trouble.dismissed is None for entry in listed)))


def _withdraw(resources: Sequence[Resource], company: str | None, *, as_json: bool) -> NoReturn:
    found = run_on_cluster(lambda context: indexer.withdraw(context, resources, company, print_error_line))
    if as_json:
        echo(orjson.dumps({"withdrawn": found}))
    else:
        lines = [f"Withdrawn of {alias}: {', '.join(names)}." for alias, names in found.items()]
        echo("\n".join(lines) or "Nothing to withdraw.")
    raise SystemExit(0)


def _dismiss(
    resources: tuple[str, ...], identifiers: tuple[str, ...], company: str | None, *, as_json: bool
) -> NoReturn:
    if len(resources) != 1:
        raise click.UsageError("Name the one resource that the identifiers of --dismiss are of.")
    resource = RESOURCES_BY_NAME[resources[0]]

    missing = run_on_cluster(lambda context: indexer.dismiss(context, resource, identifiers, company))
    dismissed = [name for name in identifiers if name not in missing]
    if as_json:
        echo(orjson.dumps({"dismissed": dismissed, "missing": missing}))
    else:
        if dismissed:
            echo(f"Dismissed: {', '.join(dismissed)}.")
        if missing:
            of_company = f" and {company}" if company else ""
            echo(f"Not on the list of {resource.alias}{of_company}: {', '.join(missing)}.", err=True)
    raise SystemExit(ExitCode.FAILED if missing else ExitCode.SUCCESS)


def _table(listed: list[ListedTrouble]) -> Table:
    table = plain_table(*_COLUMNS, folded=["Reason"])
    for entry in listed:
        trouble = entry.trouble
        since = dt.datetime.fromtimestamp(trouble.since / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M")
        note = f"{entry.served}, dismissed" if trouble.dismissed is not None else entry.served
        table.add_row(
            trouble.resource, trouble.company, trouble.id, since, note, trouble.field, trouble.reason, trouble.origin
        )
    return table
