"""The table of replications in `brokerage index status`."""

import datetime as dt
import time
from collections.abc import Collection, Iterator

from rich.table import Table
from rich.text import Text

from indexer.control import ReplicationStatus

_COLUMNS = ("Company", "Followed by", "At, UTC", "Behind", "Keys checked", "Records", "Due")


def replication_table(replications: Collection[ReplicationStatus]) -> Iterator[Table]:
    """Yield a table with a row for each replicated source, or nothing if there is none."""
    if not replications:
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("Replicated from", overflow="fold")
    for column in _COLUMNS:
        table.add_column(column, no_wrap=True)
    for status in replications:
        table.add_row(*_row(status))
        if status.complaint:
            table.add_row(Text(status.complaint, style="red"))
        for sentence in status.missing:
            if sentence not in (status.complaint or ""):
                table.add_row(Text(sentence, style="yellow"))
    yield table


def _row(status: ReplicationStatus) -> tuple[str, ...]:
    at = dt.datetime.fromtimestamp(status.at // 1000, dt.UTC).strftime("%m-%d %H:%M")
    return (
        status.source,
        status.company,
        status.followed_by,
        at,
        _lag(status),
        "" if status.keys_checked is None else _age(status.keys_checked),
        f"{sum(status.records.values()):,}",
        f"{status.due:,}",
    )


def _lag(status: ReplicationStatus) -> str:
    """Return the time since the copy was last complete; it grows while no run is active."""
    if status.complete is None:
        return "not loaded"
    return _age(status.complete)


def _age(milliseconds: int) -> str:
    """Return the time since a time in milliseconds since 1970."""
    return str(dt.timedelta(seconds=max(0, int(time.time()) - milliseconds // 1000)))
