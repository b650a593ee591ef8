"""Copies in other forms, written anew from the SQLite file and put in place of the last one in one step."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

import orjson

from consumer.errors import CopyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from consumer.copies.copy import Copy, Row

    Writer = Callable[[Path, Iterator[Row]], None]

# What a copy may be exported to; the name is also the ending of the files.
FORMATS = ("ndjson", "parquet")


def require(form: str) -> None:
    """Raise CopyError where a form needs a package that is not installed."""
    if form == "parquet" and find_spec("pyarrow") is None:
        raise CopyError("Parquet needs pyarrow, which is not installed: pip install 'brokerage[parquet]'.")


def export(copy: Copy, resource: str, folder: Path, form: str) -> bool:
    """Write the file of a resource if it is not of the copy's present version; return whether it was written."""
    version, target = f"{form}:{copy.place(resource).version}", folder / f"{resource}.{form}"
    if copy.place(resource).exported == version and target.exists():
        return False
    part = folder / f".{resource}.{form}.part"
    _writer(form)(part, copy.rows(resource))
    with part.open("rb") as written:
        os.fsync(written.fileno())
    part.replace(target)
    copy.note_export(resource, version)
    return True


def _writer(form: str) -> Writer:
    if form == "ndjson":
        return _write_ndjson
    # Loaded where it is wanted: its package is an extra.
    writer: Writer = import_module("consumer.copies.parquet").write_parquet
    return writer


def _write_ndjson(path: Path, rows: Iterator[Row]) -> None:
    """Write a line for each record, as a snapshot has them."""
    with path.open("wb", buffering=1 << 20) as file:
        for row in rows:
            told = {
                "company": row.company,
                "id": row.id,
                "sequence": row.sequence,
                "time": row.time,
                "content": row.content,
            }
            file.write(orjson.dumps(told | {"record": orjson.Fragment(row.record)}, option=orjson.OPT_APPEND_NEWLINE))
