"""The tables and notes of `brokerage index status`."""

import datetime as dt
from collections.abc import Iterable, Iterator

from rich.filesize import decimal
from rich.table import Table

from cluster.index_wear import wear_sentence
from indexer import ResourceStatus
from indexer.generations.checkpoint import BuildProgress

_SERVED = ("Resource", "Live", "Kept", "Records", "Deleted", "Shards", "Size", "Worn", "Segments", "Mapping")
_LAST_RUN = ("Resource", "Watermark, UTC", "Last run", "At, UTC", "Behind", "Read", "Bad")


def status_tables(states: Iterable[ResourceStatus]) -> tuple[Table, Table]:
    """Return a table of live generations and one of last runs, each with a row per resource."""
    served, last_runs = _table(_SERVED), _table(_LAST_RUN)
    for state in states:
        served.add_row(*_served(state))
        last_runs.add_row(*_last_run(state))
    return served, last_runs


def _table(columns: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def _served(state: ResourceStatus) -> tuple[str, ...]:
    kept = ", ".join(_number(state, index) for index in state.others)
    if state.live is None:
        return (state.resource, "none", kept)
    return (
        state.resource,
        _number(state, state.live),
        kept,
        _counted(state.documents),
        _counted(state.tombstones),
        f"{state.shards:,}",
        decimal(state.size),
        "" if state.wear is None else f"{state.wear.deleted:.1%}",
        "" if state.wear is None else f"{state.wear.segments:,}",
        "current" if state.is_current else "stale",
    )


def _counted(number: int | None) -> str:
    return "unknown" if number is None else f"{number:,}"


def _last_run(state: ResourceStatus) -> tuple[str, ...]:
    mark = "" if state.mark is None else _time(state.mark)
    if state.last is None:
        return (state.resource, mark)
    # The age of the newest record when the run made it visible.
    behind = str(dt.timedelta(seconds=max(0, state.last.at - state.last.newest) // 1000)) if state.last.newest else ""
    counts = f"{state.last.read:,}", f"{state.last.dead:,}"
    return (state.resource, mark, state.last.verb, _time(state.last.at), behind, *counts)


def status_notes(states: Iterable[ResourceStatus]) -> Iterator[str]:
    """Yield a sentence for each problem: of shards, wear, builds, dead letters and watermarks."""
    for state in states:
        yield from state.shard_problems
        if state.is_mark_ahead:
            yield (
                f"{state.resource}: the watermark is in the future, from a run under a wrong clock. "
                f"Run `brokerage index repair-clock {state.resource}`."
            )
        if state.is_replaced:
            yield (
                f"{state.resource}: restored or replaced since the last run, so its changes are refused. "
                "`brokerage index restored`, or the next update, lets consumers start again."
            )
        if state.wear is not None and state.wear.is_worn:
            yield f"{state.resource}: {wear_sentence(state.wear)} Run `brokerage index compact {state.resource}`."
        if state.build is not None:
            yield _unfinished(state.build)
        if state.last is not None and state.last.dead_letters:
            yield f"{state.resource}: dead letters in {state.last.dead_letters}."


def _unfinished(build: BuildProgress) -> str:
    if build.refusal is not None:
        return f"{build.candidate} was refused and is kept for inspection: {build.refusal}"
    return f"{build.candidate} is in progress or interrupted, at line {build.line:,} ({build.phase})."


def _number(state: ResourceStatus, index: str) -> str:
    """Return an index name without the alias, which the row shows already."""
    return index.removeprefix(f"{state.alias}-")


def _time(milliseconds: int) -> str:
    return dt.datetime.fromtimestamp(milliseconds // 1000, dt.UTC).strftime("%m-%d %H:%M")
