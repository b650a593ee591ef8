"""The table of `brokerage index status`, and what else there is to say."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from rich.filesize import decimal
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from indexer import ResourceStatus
    from indexer.checkpoint import Progress

_SERVED = ("Resource", "Live", "Kept", "Records", "Deleted", "Size", "Shape")
_DONE = ("Resource", "Mark, UTC", "Last run", "At, UTC", "Behind", "Read", "Dead")


def status_tables(states: Iterable[ResourceStatus]) -> tuple[Table, Table]:
    """Return what is live and what was last done, one row per resource each."""
    served, done = _table(_SERVED), _table(_DONE)
    for state in states:
        served.add_row(*_served(state))
        done.add_row(*_done(state))
    return served, done


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
        f"{state.documents:,}",
        f"{state.tombstones:,}",
        decimal(state.size),
        "current" if state.is_current else "stale",
    )


def _done(state: ResourceStatus) -> tuple[str, ...]:
    mark = "" if state.mark is None else _time(state.mark)
    if state.last is None:
        return (state.resource, mark)
    # How far what was served was behind its source when it was made visible.
    behind = str(dt.timedelta(seconds=max(0, state.last.at - state.last.newest) // 1000))
    counts = f"{state.last.read:,}", f"{state.last.dead:,}"
    return (state.resource, mark, state.last.verb, _time(state.last.at), behind, *counts)


def notes(states: Iterable[ResourceStatus]) -> Iterator[str]:
    """Yield a sentence for each build that is not over and each file of dead letters."""
    for state in states:
        if state.build is not None:
            yield _unfinished(state.build)
        if state.last is not None and state.last.dead_letters:
            yield f"{state.resource}: dead letters in {state.last.dead_letters}."


def _unfinished(build: Progress) -> str:
    if build.refusal is not None:
        return f"{build.candidate} was refused and is kept to be looked at: {build.refusal}"
    return f"{build.candidate} is under way or interrupted, at line {build.line:,} ({build.phase})."


def _number(state: ResourceStatus, index: str) -> str:
    """Return the part of an index name that the row does not say already."""
    return index.removeprefix(f"{state.alias}-")


def _time(milliseconds: int) -> str:
    return dt.datetime.fromtimestamp(milliseconds // 1000, dt.UTC).strftime("%m-%d %H:%M")
