"""The files of a table: names, folders and patterns, plain, compressed, or members of zip archives."""

import io
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

from indexer.errors import SourceError
from indexer.source.compression import DecompressedStream, decompressed
from indexer.source.files import open_raw
from indexer.source.tables.table_format import TableFormat
from indexer.source.tables.text_detection import TextDialect, detected_form

_SUFFIXES = (".csv", ".tsv", ".txt", ".tab")
_PACKED = ("", ".gz", ".zst", ".zip")
_IN_FOLDERS = (*(suffix + packed for suffix in _SUFFIXES for packed in _PACKED), ".zip")
_ZIP = b"PK\x03\x04"
_MAX_MEMBERS = 10_000
PATTERN_SIGNS = frozenset("*?[")
_WORKBOOK = "xl/workbook.xml"


@dataclass
class TableFile:
    """One table: a file, or a member of a zip archive; `name` is how messages refer to it."""

    path: Path
    name: str
    declared: TableFormat
    folder: Path  # of the column map
    member: str | None = None

    @property
    def size(self) -> int:
        """The stored bytes of a file, the unpacked ones of a member."""
        if self.member is None:
            return self.path.stat().st_size
        with zipfile.ZipFile(self.path) as archive:
            return archive.getinfo(self.member).file_size

    @cached_property
    def form(self) -> TextDialect:
        """The encoding and the delimiter, as declared or detected."""
        with self.open() as stream:
            return detected_form(stream.reader, self.name, self.declared.encoding, self.declared.delimiter)

    @contextmanager
    def open(self) -> Iterator[DecompressedStream]:
        """Open the plain bytes."""
        with open_raw(self.path) as raw:
            if self.member is None:
                with decompressed(raw) as plain:
                    yield plain
                return
            with (
                zipfile.ZipFile(raw) as archive,
                archive.open(self.member) as packed,
                # An archive may hold compressed files.
                decompressed(cast("io.BufferedIOBase", packed)) as plain,
            ):
                yield DecompressedStream(plain.reader, packed.tell)


def table_files(declared: TableFormat, folder: Path, map_name: str) -> list[TableFile]:
    """Return the files that a column map names, in the order of its patterns and of their names, each once.

    Raises SourceError for a pattern without files, and for an archive that cannot be read.
    """
    found: dict[Path, None] = {}
    for pattern in declared.patterns:
        matching = _matching(pattern, folder)
        if not matching:
            key = "file" if declared.file is not None else "files"
            raise SourceError(f"{map_name}: {key} is {pattern!r}, but {_absence(pattern, folder)}.")
        found.update(dict.fromkeys(matching))
    return [table for path in found for table in _tables(path, folder, declared)]


def _matching(pattern: str, folder: Path) -> list[Path]:
    path = folder / pattern
    if path.is_file():
        return [path]
    if path.is_dir():
        return sorted(one for one in path.iterdir() if one.is_file() and one.name.lower().endswith(_IN_FOLDERS))
    if not PATTERN_SIGNS & {*pattern}:
        return []
    try:
        return sorted(one for one in folder.glob(pattern) if one.is_file())
    except (ValueError, NotImplementedError):  # an absolute pattern
        return []


def _absence(pattern: str, folder: Path) -> str:
    path = folder / pattern
    if path.is_dir():
        return f"{path} has no files that end in {', '.join(_SUFFIXES)}"
    if PATTERN_SIGNS & {*pattern}:
        return f"no file in {folder} matches it; patterns are relative to the column map"
    return f"{path} is not a file"


def _tables(path: Path, folder: Path, declared: TableFormat) -> Iterable[TableFile]:
    name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)
    with open_raw(path) as raw:
        is_archive = raw.read(len(_ZIP)) == _ZIP
    if not is_archive:
        return [TableFile(path, name, declared, folder)]
    try:
        with zipfile.ZipFile(path) as archive:
            members = [one for one in archive.infolist() if _is_table(one)]
    except (zipfile.BadZipFile, OSError) as error:
        raise SourceError(f"{name} is not a valid zip archive: {error}.") from error
    _check_members(name, members)
    return [TableFile(path, f"{name}/{one.filename}", declared, folder, one.filename) for one in members]


def _is_table(member: zipfile.ZipInfo) -> bool:
    parts = member.filename.split("/")
    return not member.is_dir() and parts[0] != "__MACOSX" and not parts[-1].startswith(".")


def _check_members(name: str, members: list[zipfile.ZipInfo]) -> None:
    if any(member.filename == _WORKBOOK for member in members):
        raise SourceError(f"{name} is an Excel workbook: save the sheet as CSV in UTF-8, and name that file.")
    if not members or len(members) > _MAX_MEMBERS:
        raise SourceError(f"{name} has {len(members):,} files: an archive must have 1 to {_MAX_MEMBERS:,}.")
    for member in members:
        if member.flag_bits & 1:
            raise SourceError(f"{name}: {member.filename} is encrypted: unpack it first.")
        if member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            # The others decompress in steps without a bound.
            raise SourceError(f"{name}: {member.filename} is not packed by deflate: pack it again with that method.")
