"""The export as Parquet: a column for each member of a row, the record in JSON. Needs the extra `parquet`."""

from __future__ import annotations

import datetime as dt
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from consumer.copies.copy import Row

_ROWS_A_GROUP = 10_000
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


def write_parquet(path: Path, rows: Iterator[Row]) -> None:
    """Write a row for each record."""
    with pq.ParquetWriter(path, _SCHEMA, compression="zstd") as writer:
        while some := list(islice(rows, _ROWS_A_GROUP)):
            writer.write_table(pa.Table.from_pylist([_plain(row) for row in some], schema=_SCHEMA))


def _plain(row: Row) -> dict[str, object]:
    time = dt.datetime.fromisoformat(row.time)
    return {
        "id": row.id,
        "company": row.company,
        "sequence": row.sequence,
        "time": time,
        "content": row.content,
        "record": row.record.decode(),
    }
