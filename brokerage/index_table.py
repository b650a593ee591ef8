"""The table of `brokerage index status`."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from rich.filesize import decimal
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from indexer import ResourceStatus

_COLUMNS = ("Resource", "Live", "Others", "Documents", "Tombstones", "Size", "Shape", "Marked")


def status_table(states: Iterable[ResourceStatus]) -> Table:
    """Return one row per resource."""
    table = Table(box=None, pad_edge=False)
    for column in _COLUMNS:
        table.add_column(column, overflow="fold")
    for state in states:
        table.add_row(*_row(state))
    return table


def _row(state: ResourceStatus) -> tuple[str, ...]:
    if state.live is None:
        return (state.resource, "none", _numbers(state))
    marked = (
        ""
        if state.mark is None
        else dt.datetime.fromtimestamp(state.mark // 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
    )
    return (
        state.resource,
        state.live,
        _numbers(state),
        f"{state.documents:,}",
        f"{state.tombstones:,}",
        decimal(state.size),
        "current" if state.is_current else "stale",
        marked,
    )


def _numbers(state: ResourceStatus) -> str:
    return ", ".join(index.removeprefix(f"{state.alias}-") for index in state.others)
