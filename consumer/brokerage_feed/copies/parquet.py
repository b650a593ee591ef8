"""The export to Parquet: one column per member of a row, the record as JSON. Needs the extra `parquet`."""

from __future__ import annotations

import datetime as dt
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from brokerage_feed.copies.copy_store import CopyRow

_ROWS_PER_GROUP = 10_000
_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("company", pa.string()),
        ("sequence", pa.int64()),
        ("time", pa.timestamp("ms", tz="UTC")),
        ("content", pa.string()),
        ("record", pa.string()),
    ]
)


def write_parquet(path: Path, rows: Iterator[CopyRow]) -> None:
    """Write one row per record."""
    with pq.ParquetWriter(path, _SCHEMA, compression="zstd") as writer:
        while group := list(islice(rows, _ROWS_PER_GROUP)):
            writer.write_table(pa.Table.from_pylist([_plain(row) for row in group], schema=_SCHEMA))


def _plain(row: CopyRow) -> dict[str, object]:
    return {
        "id": row.id,
        "company": row.company,
        "sequence": row.sequence,
        "time": dt.datetime.fromisoformat(row.time),
        "content": row.content,
        "record": row.record.decode(),
    }
