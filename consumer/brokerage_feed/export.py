"""Exports of a copy in other formats, rewritten from the SQLite file and replaced atomically."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import msgspec

from brokerage_feed.errors import CopyError
from brokerage_feed.private_files import create_file
from brokerage_feed.sqlite_copy import CopyRow, SqliteCopy
from brokerage_feed.tables import Spelling, typed_tables

OpenFile = Callable[[str], IO[bytes]]

# The formats, which are also the file extensions.
EXPORT_FORMATS = ("ndjson", "parquet")


def require_format(export_format: str) -> None:
    """Raise CopyError if the format needs a package that is not installed."""
    if export_format == "parquet" and find_spec("pyarrow") is None:
        raise CopyError("Parquet needs pyarrow, which is not installed: pip install pyarrow.")


def export_resource(
    copy: SqliteCopy, resource: str, folder: Path, export_format: str, spelling: Spelling = Spelling.UNDERSCORED
) -> bool:
    """Write the files of a resource unless they are up to date; return whether they were written.

    Parquet has a file for each of the resource's tables, with names of columns in `spelling`.
    """
    checkpoint = copy.checkpoint(resource)
    version = ":".join((export_format, *([spelling] if export_format == "parquet" else []), str(checkpoint.version)))
    targets = {name: folder / f"{name}.{export_format}" for name in _names(resource, export_format)}
    if checkpoint.exported == version and all(target.exists() for target in targets.values()):
        return False
    parts = {name: _create_part(target) for name, target in targets.items()}
    _write(resource, export_format, spelling, copy.rows(resource), lambda name: parts[name].open("wb", 1 << 20))
    for name, part in parts.items():
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(targets[name])
    copy.record_export(resource, version)
    return True


def _names(resource: str, export_format: str) -> list[str]:
    return [table.name for table in typed_tables(resource)] if export_format == "parquet" else [resource]


def _create_part(target: Path) -> Path:
    part = target.with_name(f".{target.name}.part")
    create_file(part)
    if target.exists():
        part.chmod(target.stat().st_mode & 0o777)
    return part


def _write(resource: str, export_format: str, spelling: Spelling, rows: Iterator[CopyRow], open_file: OpenFile) -> None:
    if export_format == "ndjson":
        with open_file(resource) as file:
            file.writelines(map(_line, rows))
        return
    # Imported lazily, since its package is an optional dependency.
    from brokerage_feed.parquet_tables import ParquetTables  # noqa: PLC0415

    with closing(ParquetTables(resource, spelling, open_file)) as tables:
        try:
            for row in rows:
                tables.add(_line(row))
            tables.finish()
        except ValueError as error:
            raise CopyError(f"{resource} cannot be written as Parquet: {error}.") from error


def _line(row: CopyRow) -> bytes:
    """Return the line of a record, as in a snapshot."""
    members = {
        "company": row.company,
        "id": row.id,
        "sequence": row.sequence,
        "time": row.time,
        "content": row.content,
    }
    exact = {"exact": msgspec.Raw(row.exact)} if row.exact else {}
    return msgspec.json.encode(members | exact | {"record": msgspec.Raw(row.record)}) + b"\n"
