"""Exports of a copy in other formats, rewritten from the SQLite file and replaced atomically."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

import msgspec

from brokerage_feed.errors import CopyError
from brokerage_feed.private_files import create_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from brokerage_feed.copies.copy_store import CopyRow, CopyStore

    ExportWriter = Callable[[Path, Iterator[CopyRow]], None]

# The formats, which are also the file extensions.
EXPORT_FORMATS = ("ndjson", "parquet")


def require_format(export_format: str) -> None:
    """Raise CopyError if the format needs a package that is not installed."""
    if export_format == "parquet" and find_spec("pyarrow") is None:
        raise CopyError("Parquet needs pyarrow, which is not installed: pip install 'brokerage-feed[parquet]'.")


def export_resource(copy: CopyStore, resource: str, folder: Path, export_format: str) -> bool:
    """Write the file of a resource unless it is up to date; return whether it was written."""
    checkpoint, target = copy.checkpoint(resource), folder / f"{resource}.{export_format}"
    version = f"{export_format}:{checkpoint.version}"
    if checkpoint.exported == version and target.exists():
        return False
    part = folder / f".{resource}.{export_format}.part"
    create_file(part)
    if target.exists():
        part.chmod(target.stat().st_mode & 0o777)
    _writer(export_format)(part, copy.rows(resource))
    with part.open("rb") as written:
        os.fsync(written.fileno())
    part.replace(target)
    copy.record_export(resource, version)
    return True


def _writer(export_format: str) -> ExportWriter:
    if export_format == "ndjson":
        return _write_ndjson
    # Imported lazily, since its package is an optional dependency.
    writer: ExportWriter = import_module("brokerage_feed.copies.parquet").write_parquet
    return writer


def _write_ndjson(path: Path, rows: Iterator[CopyRow]) -> None:
    """Write one line per record, as in a snapshot."""
    with path.open("wb", buffering=1 << 20) as file:
        for row in rows:
            members = {
                "company": row.company,
                "id": row.id,
                "sequence": row.sequence,
                "time": row.time,
                "content": row.content,
            }
            file.write(msgspec.json.encode(members | {"record": msgspec.Raw(row.record)}) + b"\n")
