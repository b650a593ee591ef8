"""`brokerage index verify`: prove that what is served is what the source, or an earlier generation, holds."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import TYPE_CHECKING

import orjson
import rich_click as click

from brokerage.completion import files
from brokerage.examples import LOADING, ending
from brokerage.failures import told_plainly
from brokerage.index_run import NAMES, RESOURCE, explained, run
from indexer import open_source
from indexer.verify import against_generation, against_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.shell_completion import CompletionItem

    from indexer.verify_findings import Comparison, Named
    from mappings import Resource

_NAMED = 20
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _completed(context: click.Context, argument: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Complete a resource, else the path of a source."""
    return RESOURCE.shell_complete(context, argument, incomplete) or files(context, argument, incomplete)


@click.command(
    epilog=ending(
        "brokerage index verify data",
        "brokerage index verify data listings --full",
        "brokerage index verify listings --against listings-v0003",
        exits=LOADING,
    )
)
@click.argument("names", nargs=-1, metavar="[SOURCE] [RESOURCE]...", shell_complete=_completed)
@click.option("--against", metavar="GENERATION", help="An earlier generation instead of a SOURCE, e.g. listings-v0003.")
@click.option("--full", is_flag=True, help="Read whole documents, and compare the stored bytes of each record.")
@click.option("--json", "as_json", is_flag=True, help="JSON, with up to 1,000 names of each kind.")
def verify(*, names: tuple[str, ...], against: str | None, full: bool, as_json: bool) -> None:
    """Compare every live record with SOURCE, or with the generation that the live one replaced.

    Told are records that are missing, surplus or different, with --full also those whose stored bytes were altered.
    Records that changed since, and lines of the source that are no usable records, are told and are no fault. A first
    name that is a resource's is no SOURCE: write ./listings for such a folder. Exit code 1 where anything is at fault.
    """
    source, chosen = _split(names)
    if source is not None and against is not None:
        raise click.UsageError("Give a SOURCE or --against, not both.")
    resources = [NAMES[name] for name in chosen]

    found = _against(source, against, resources, is_full=full)
    code = int(not all(one.is_equal for one in found))
    if as_json:
        by_name = {one.resource: _plain(one) for one in found}
        click.echo(orjson.dumps({"exit_code": code, "resources": by_name}).decode())
    else:
        click.echo("\n".join(line for one in found for line in _lines(one)))
    raise SystemExit(code)


def _split(names: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    source, chosen = (None, names) if not names or names[0] in NAMES else (names[0], names[1:])
    for name in chosen:
        if name not in NAMES:
            raise click.UsageError(f"{name} is no resource: there are {', '.join(NAMES)}.")
    return source, chosen


def _against(
    source: str | None, generation: str | None, resources: list[Resource], *, is_full: bool
) -> list[Comparison]:
    if source is None:
        return run(partial(against_generation, resources=resources, generation=generation, is_full=is_full))
    default = resources[0] if len(resources) == 1 else None
    with told_plainly(), explained(), open_source(source, resource=default) as opened:
        return run(partial(against_source, source=opened, resources=resources, is_full=is_full))


def _lines(one: Comparison) -> Iterator[str]:
    """Yield what people read: one line for the resource, and one for each record that is named."""
    if one.index is None:
        yield f"{one.resource}: {one.reference} has it, but nothing is live."
        return
    rate = one.compared / max(one.seconds, 0.001)
    yield f"{one.resource}: {one.compared:,} of {one.reference} in {one.index}: {_outcome(one)} ({rate:,.0f}/s)"
    for kind, named in one.named.items():
        for record in named[:_NAMED]:
            expected, found = _time(record.expected) or "absent", _time(record.found) or "absent"
            yield f"  {kind}: {record.id}, {one.reference} {expected}, index {found}"
    for line in one.unreadable_named[:_NAMED]:
        yield f"  unreadable: {line.file}, line {line.line}: {line.field} {line.reason}"


def _outcome(one: Comparison) -> str:
    counts = [f"{count:,} {kind}" for kind, count in one.counts.items() if count]
    unreadable = [f"{one.unreadable:,} unreadable"] if one.unreadable else []
    return ", ".join([*(["equal"] if one.is_equal else []), *counts, *unreadable])


def _plain(one: Comparison) -> dict[str, object]:
    return {
        "reference": one.reference,
        "index": one.index,
        "equal": one.is_equal,
        "compared": one.compared,
        "repeated": one.repeated,
        "unreadable": one.unreadable,
        "seconds": one.seconds,
        "counts": {kind.value: count for kind, count in one.counts.items()},
        "named": {kind.value: [_timed(record) for record in named] for kind, named in one.named.items()},
        "unreadable_named": [line._asdict() for line in one.unreadable_named],
    }


def _timed(record: Named) -> dict[str, str | None]:
    return {"id": record.id, "expected": _time(record.expected), "found": _time(record.found)}


def _time(version: int | None) -> str | None:
    """Return the moment of a version, to the microsecond, or None for no version."""
    if version is None:
        return None
    moment = _EPOCH + dt.timedelta(microseconds=version >> 10)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
