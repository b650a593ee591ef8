"""`brokerage index repair-clock`: bring stamps and watermarks back from the future."""

import datetime as dt
from collections.abc import Collection, Mapping
from dataclasses import asdict
from functools import partial

import orjson
import rich_click as click

import indexer
from brokerage.help_epilogs import INDEX_EXITS, epilog
from brokerage.index.index_runner import (
    JSON_OPTION,
    RESOURCE_CHOICE,
    RESOURCES_BY_NAME,
    print_error_line,
    run_on_cluster,
)
from brokerage.output import echo

Repairs = Mapping[str, indexer.ClockRepair | None]


@click.command(
    "repair-clock",
    epilog=epilog("brokerage index repair-clock", "brokerage index repair-clock listings --json", exits=INDEX_EXITS),
)
@click.argument("resources", nargs=-1, type=RESOURCE_CHOICE, metavar="[RESOURCE]...")
@JSON_OPTION
def repair_clock(*, resources: tuple[str, ...], as_json: bool) -> None:
    """Repair what a run under a clock that was ahead has left: stamps and watermarks in the future.

    Their changes are stamped with the present. Consumers that hold such a watermark receive them again and miss
    nothing; if it is more than a week ahead, they must ask before its time has come. Tokens of /v1/changes stay valid.
    Without RESOURCE, all are repaired; one without a watermark in the future stays as it is. The clocks of this host
    and of Elasticsearch must be right first.
    """
    repairs = run_on_cluster(partial(_repair_all, resources=resources or tuple(RESOURCES_BY_NAME)))
    if as_json:
        echo(orjson.dumps({name: repair and asdict(repair) for name, repair in repairs.items()}).decode())
    else:
        echo("\n".join(_line(name, repair) for name, repair in repairs.items()))


async def _repair_all(context: indexer.IndexerContext, resources: Collection[str]) -> Repairs:
    return {
        name: await indexer.repair_clock(context, RESOURCES_BY_NAME[name], on_wait=print_error_line)
        for name in resources
    }


def _line(name: str, repair: indexer.ClockRepair | None) -> str:
    if repair is None:
        return f"{name}: nothing to repair."
    before, after = _time(repair.before), _time(repair.after)
    line = f"{name}: watermark {before} -> {after}, {repair.documents:,} documents stamped again."
    if not repair.late_readers_start_over:
        return f"{line} Until {before}, polls with a later watermark than {after} repeat the changes since then."
    return (
        f"{line}\n  Consumers that received a later updated_since must send it before its time has come, or start over."
    )


def _time(milliseconds: int) -> str:
    return dt.datetime.fromtimestamp(milliseconds // 1000, dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
