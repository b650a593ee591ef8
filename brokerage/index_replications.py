"""The part of `brokerage index status` that is about replications."""

from __future__ import annotations

import datetime as dt
import time
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from indexer.replications import Replication

_COLUMNS = ("Company", "Followed by", "At, UTC", "Behind", "Records", "Due")


def replication_table(followed: Collection[Replication]) -> Iterator[Table]:
    """Yield a table with a row for each source that is replicated; none where none is."""
    if not followed:
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("Replicated from", overflow="fold")
    for column in _COLUMNS:
        table.add_column(column, no_wrap=True)
    for each in followed:
        table.add_row(*_row(each))
        if each.complaint:
            table.add_row(Text(each.complaint, style="red"))
    yield table


def _row(each: Replication) -> tuple[str, ...]:
    at = dt.datetime.fromtimestamp(each.at // 1000, dt.UTC).strftime("%m-%d %H:%M")
    return (
        each.source,
        each.company,
        each.followed_by,
        at,
        _behind(each),
        f"{sum(each.records.values()):,}",
        f"{each.due:,}",
    )


def _behind(each: Replication) -> str:
    """Return how long ago everything that the source showed was served; a run that has stopped falls behind."""
    if each.complete is None:
        return "not loaded"
    return str(dt.timedelta(seconds=max(0, int(time.time()) - each.complete // 1000)))
