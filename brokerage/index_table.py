"""The table of `brokerage index status`."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from rich.filesize import decimal
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from indexer import ResourceStatus

_COLUMNS = ("Resource", "Live", "Others", "Records", "Deleted", "Size", "Shape", "Marked, UTC")


def status_table(states: Iterable[ResourceStatus]) -> Table:
    """Return one row per resource."""
    table = Table(box=None, pad_edge=False)
    for column in _COLUMNS:
        table.add_column(column, no_wrap=True)
    for state in states:
        table.add_row(*_row(state))
    return table


def _row(state: ResourceStatus) -> tuple[str, ...]:
    if state.live is None:
        return (state.resource, "none", ", ".join(_number(state, index) for index in state.others))
    return (
        state.resource,
        _number(state, state.live),
        ", ".join(_number(state, index) for index in state.others),
        f"{state.documents:,}",
        f"{state.tombstones:,}",
        decimal(state.size),
        "current" if state.is_current else "stale",
        "" if state.mark is None else _time(state.mark),
    )


def _number(state: ResourceStatus, index: str) -> str:
    """Return the part of an index name that the row does not say already."""
    return index.removeprefix(f"{state.alias}-")


def _time(milliseconds: int) -> str:
    return dt.datetime.fromtimestamp(milliseconds // 1000, dt.UTC).strftime("%m-%d %H:%M")
