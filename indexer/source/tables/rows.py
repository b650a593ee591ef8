"""The files of a table and their rows, each with its line number and its text in UTF-8.

Files are named by names, folders and patterns: plain, compressed, or members of zip archives. Their encoding and
delimiter are detected from their bytes where the column map does not state them.
"""

import codecs
import csv
import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, Self, cast

from charset_normalizer import from_bytes

from indexer.errors import SourceError
from indexer.source.files import DAMAGE, DecompressedStream, decompressed, open_raw, oversized, report_damage
from indexer.source.tables.column_map import TableFormat
from indexer.source.tables.workbooks import open_sheet, sheet_names

_UTF_8 = "utf-8"
_WESTERN = "cp1252"
_DELIMITERS = ",;\t|"
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"}
_MARKS |= {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_BLOCK_BYTES = 1 << 20
_HEADER_BYTES = 1 << 16
_SAMPLE_BYTES = 1 << 16
# A header is among the first rows; above it are titles.
HEADER_ROWS = 30
_COMPARED_LINES = 5
# ASCII for so long is taken for UTF-8: a compressed file may be without end.
_DETECTED_BYTES = 1 << 30
# What exports of American and European programs are written in.
_CANDIDATES = ["cp1252", "mac_roman", "cp1250", "cp1251", "cp1253", "cp1254", "cp437", "cp850"]
_CANDIDATES += ["shift_jis", "gb18030", "big5"]
_WESTERN_NAMES = {"cp1252", "latin_1", "iso8859_15", "cp1254", "cp1250", "iso8859_2"}


class DetectionNote(NamedTuple):
    """Something unusual that was detected, the key that declares it, and words of the text that depend on it."""

    found: str
    key: str
    words: str = ""


class TextDialect(NamedTuple):
    encoding: str
    delimiter: str
    notes: tuple[DetectionNote, ...]


def _detected_form(plain: io.BufferedReader, file: str, encoding: str | None, delimiter: str | None) -> TextDialect:
    """Return the declared or detected encoding and delimiter; reads the stream to its end if it has no encoding.

    A file with at least one line that is valid UTF-8 beyond ASCII is UTF-8: its other lines are damaged. Raises
    SourceError if the stream cannot be read.
    """
    notes = []
    with report_damage(file, lambda: 0):
        head = plain.read(_HEADER_BYTES)
    if encoding is None:
        encoding, words = _encoding(head, plain)
        if encoding != _UTF_8:
            notes.append(DetectionNote(f"read as {encoding}", "encoding", words))
    if delimiter is None:
        delimiter = _delimiter(head, encoding)
        if delimiter != ",":
            notes.append(DetectionNote(f"read with the delimiter {delimiter!r}", "delimiter"))
    return TextDialect(encoding, delimiter, tuple(notes))


def _encoding(head: bytes, plain: io.BufferedReader) -> tuple[str, str]:
    """Return the encoding and, for a legacy one, some words of the text that depend on it."""
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            return name, ""
    if b"\0" in head[:2]:
        return ("utf-16-be" if head[:1] == b"\0" else "utf-16-le"), ""
    blocks = islice(iter(lambda: _next_block(plain), b""), _DETECTED_BYTES // _BLOCK_BYTES)
    lines = list(_lines_beyond_ascii(chain([head], blocks)))
    if not lines or any(map(_is_utf8, lines)):
        return _UTF_8, ""
    sample = b"\n".join(lines)
    encoding = _legacy_encoding(sample)
    return encoding, _words(sample.decode(encoding, "replace"))


def _legacy_encoding(sample: bytes) -> str:
    matches = from_bytes(sample, cp_isolation=_CANDIDATES)
    names = {name for match in matches for name in (match.encoding, *match.could_be_from_charset)}
    best = matches.best()
    return _WESTERN if best is None or names & _WESTERN_NAMES else str(best.encoding)


def _lines_beyond_ascii(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines with bytes beyond ASCII; the parts of a line that is in two blocks are joined."""
    size, part = 0, b""
    for block in chain(blocks, [b"\n"]):
        if not block.isascii() or not part.isascii():
            *lines, part = (part + block).split(b"\n")
            for line in lines:
                if not line.isascii():
                    if (size := size + len(line)) > _SAMPLE_BYTES:
                        return
                    yield line
        else:
            part = block[block.rfind(b"\n") + 1 :]
        part = part[-_BLOCK_BYTES:]


def _next_block(plain: io.BufferedReader) -> bytes:
    try:
        return plain.read(_BLOCK_BYTES)
    except DAMAGE:
        return b""  # reading the rows reports it, with the line


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _words(text: str) -> str:
    words = [word for word in re.split(r"[\s,;|\"]+", text) if not word.isascii()]
    return ", ".join(list(dict.fromkeys(words))[:3])


def _delimiter(head: bytes, encoding: str) -> str:
    """Return the delimiter that makes the most columns of the header; a comma if there is only one column.

    The header is the first line that is followed by a row of as many columns; others may be titles above it.
    """
    lines = [line for line in head.decode(encoding, "replace").lstrip("\ufeff").splitlines() if line.strip()]
    for at in range(min(len(lines), HEADER_ROWS)):
        widths = {sign: _widths(lines[at : at + _COMPARED_LINES], sign) for sign in _DELIMITERS}
        sign = max(_DELIMITERS, key=lambda sign: widths[sign][0])
        if (columns := widths[sign][0]) > 1 and columns in widths[sign][1:]:
            return sign
    return max(_DELIMITERS, key=lambda sign: _widths(lines[:1], sign)[0])


def _widths(lines: list[str], delimiter: str) -> list[int]:
    """Return the number of columns of each row, at least of one."""
    try:
        return [len(row) for row in csv.reader(lines, delimiter=delimiter)] or [0]
    except csv.Error:
        return [0]


_SUFFIXES = (".csv", ".tsv", ".txt", ".tab")
_PACKED = ("", ".gz", ".zst", ".zip")
_IN_FOLDERS = (*(suffix + packed for suffix in _SUFFIXES for packed in _PACKED), ".zip", ".xlsx")
_ZIP = b"PK\x03\x04"
_MAX_MEMBERS = 10_000
PATTERN_SIGNS = frozenset("*?[")
_WORKBOOK = "xl/workbook.xml"


def table_advice(path: Path) -> str:
    """Return a sentence for a file or a folder of tables where a source is expected, or an empty text."""
    names = [path.name] if path.is_file() else [one.name for one in path.iterdir()]
    if not any(name.lower().endswith((*_IN_FOLDERS, ".xls")) for name in names):
        return ""
    return (
        f" To load tables: brokerage index load {path} --company KEY. To draft their column map: brokerage index map "
        f"{path}."
    )


@dataclass
class TableFile:
    """One table: a file, a member of a zip archive, or a sheet of a workbook; `name` is how messages refer to it."""

    path: Path
    name: str
    declared: TableFormat
    folder: Path  # of the column map
    member: str | None = None
    is_workbook: bool = False

    @property
    def size(self) -> int:
        """The stored bytes of a file, the unpacked ones of a member."""
        if self.member is None:
            return self.path.stat().st_size
        with zipfile.ZipFile(self.path) as archive:
            return archive.getinfo(self.member).file_size

    @cached_property
    def form(self) -> TextDialect:
        if self.is_workbook:
            names = [] if self.declared.sheet else sheet_names(self.path, self.name)
            found = f"read from the sheet {names[0]!r}, the first of {len(names)}" if len(names) > 1 else ""
            return TextDialect(_UTF_8, ",", (DetectionNote(found, "sheet"),) if found else ())
        with self.open() as stream:
            return _detected_form(stream.reader, self.name, self.declared.encoding, self.declared.delimiter)

    @contextmanager
    def open(self) -> Iterator[DecompressedStream]:
        if self.is_workbook:
            with (
                open_sheet(self.path, self.name, self.declared.sheet) as sheet,
                decompressed(cast("io.BufferedIOBase", sheet)) as plain,
            ):
                yield DecompressedStream(plain.reader, lambda: 0)
            return
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


def unread_files(path: Path) -> list[str]:
    """Return what is in a folder, as its path, that a column map does not read which names the folder."""
    if not path.is_dir():
        return []
    inside = [one for one in sorted(path.iterdir()) if not one.name.startswith(".") and one.suffix != ".toml"]
    return [f"{one}/" if one.is_dir() else str(one) for one in inside if one not in set(_matching(str(path), Path()))]


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
        _refuse_sheet(name, declared)
        return [TableFile(path, name, declared, folder)]
    try:
        with zipfile.ZipFile(path) as archive:
            members = [one for one in archive.infolist() if _is_table(one)]
    except (zipfile.BadZipFile, OSError) as error:
        raise SourceError(f"{name} is not a valid zip archive: {error}.") from error
    if any(member.filename == _WORKBOOK for member in members):
        return [TableFile(path, name, declared, folder, is_workbook=True)]
    _refuse_sheet(name, declared)
    _check_members(name, members)
    return [TableFile(path, f"{name}/{one.filename}", declared, folder, one.filename) for one in members]


def _refuse_sheet(name: str, declared: TableFormat) -> None:
    if declared.sheet is not None:
        raise SourceError(f"{name} is no Excel workbook, so it has no sheet {declared.sheet!r}: remove `sheet`.")


def _is_table(member: zipfile.ZipInfo) -> bool:
    parts = member.filename.split("/")
    return not member.is_dir() and parts[0] != "__MACOSX" and not parts[-1].startswith(".")


def _check_members(name: str, members: list[zipfile.ZipInfo]) -> None:
    if not members or len(members) > _MAX_MEMBERS:
        raise SourceError(f"{name} has {len(members):,} files: an archive must have 1 to {_MAX_MEMBERS:,}.")
    for member in members:
        if member.flag_bits & 1:
            raise SourceError(f"{name}: {member.filename} is encrypted: unpack it first.")
        if member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            # The others decompress in steps without a bound.
            raise SourceError(f"{name}: {member.filename} is not packed by deflate: pack it again with that method.")


_LINE_ENDS = ("\n", "\r")
_SKIPPED_CHARACTERS = 1 << 16
_TEXT_FORMULA = re.compile(r'="((?:[^"]|"")*)"')


class CsvRow(NamedTuple):
    """One row: the number of its first line, its text in UTF-8, its stripped cells, and why it is invalid, if it is."""

    number: int
    data: bytes
    cells: list[str]
    error: str | None


def read_csv_rows(
    file: str, plain: io.BufferedReader, max_bytes: int, form: TextDialect, quote: str = '"'
) -> Iterator[CsvRow]:
    """Yield every row that is not blank, including the header; raise SourceError if a quote spans several rows.

    A row whose cells are all empty is blank. A row of more than `max_bytes` is invalid, and its rest is not kept.
    Without `quote`, quotation marks are text.
    """
    # An invalid byte invalidates its row, not the file.
    name = "utf-8-sig" if form.encoding == _UTF_8 else form.encoding
    text = io.TextIOWrapper(plain, name, errors="surrogateescape", newline="")
    lines: list[str] = []
    quoting = csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
    options = {"delimiter": form.delimiter, "quotechar": quote or None, "quoting": quoting}
    reader, number = csv.reader(_RowText(text, lines, max_bytes), strict=True, **options), 0  # type: ignore[arg-type]
    with report_damage(file, lambda: number):
        while (cells := _next(reader)) is not None:
            first, number = number + 1, number + len(lines)
            row = _row(file, first, lines, cells, form.encoding) if cells else None
            lines.clear()
            if row is not None and (row.error or any(row.cells)):
                yield row


class FoundHeader(NamedTuple):
    """The row with the names of the columns, and the rows above it, which are titles."""

    row: CsvRow
    titles: list[CsvRow]


def find_header(
    rows: Iterator[CsvRow], file: str, count_columns: Callable[[list[str]], int], needed: int
) -> FoundHeader:
    """Return the first row that has all `needed` columns, or of the first rows the one that has most of them.

    `count_columns` returns how many of them a row has. Rows up to the header are read. Raises SourceError.
    """
    read: list[CsvRow] = []
    for row in islice(rows, HEADER_ROWS):
        if not row.error and count_columns(row.cells) >= needed:
            return FoundHeader(row, read)
        read.append(row)
    likeliest = max(read, key=lambda row: count_columns(row.cells), default=None)
    if likeliest is None or likeliest.error:
        raise SourceError(f"{file} has no header: its first line {likeliest.error if likeliest else 'is empty'}.")
    return FoundHeader(likeliest, [])


_MAX_SHOWN_CHARACTERS = 40


def row_text(row: CsvRow) -> str:
    """Return the texts of a row, for messages."""
    text = " ".join(", ".join(filter(None, row.cells)).split())
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[: _MAX_SHOWN_CHARACTERS - 1]}…"


def header_at(rows: Iterator[CsvRow], file: str, number: int, has_columns: Callable[[list[str]], bool]) -> CsvRow:
    """Return the row that begins in a line. Rows up to it are read.

    Raises SourceError if no row begins there, or if another row has the columns and that one has not.
    """
    above: int | None = None  # the line of the first row above that has the columns
    for row in rows:
        if row.number >= number:
            break
        above = row.number if above is None and has_columns(row.cells) else above
    else:
        row = None
    if row is None or row.number != number or row.error:
        problem = row.error if row and row.number == number else "no row begins there"
        raise SourceError(f"{file}: `header_at` is {number}, but {problem}: give the number of the header's line.")
    if not has_columns(row.cells):
        below = (other.number for other in islice(rows, HEADER_ROWS) if has_columns(other.cells))
        other = next(below, None) if above is None else above
        if other is not None:
            raise SourceError(
                f"{file}: `header_at` is {number}, but the columns are in line {other}: correct it, or remove it, as "
                "the header is then found by its columns."
            )
    return row


def without_footer(rows: Iterator[CsvRow], file: str, is_footer: Callable[[str], object]) -> Iterator[CsvRow]:
    """Yield all rows but the last, the footer; raise SourceError if the first text in it is none."""
    last = next(rows, None)
    for row in rows:
        if last is not None:
            yield last
        last = row
    if last is None or not is_footer(next(filter(None, last.cells), "")):
        where = f"its last row, in line {last.number}, is another" if last else "it has no rows"
        raise SourceError(
            f"{file} does not end with the `footer` that its column map declares: {where}. If the file is cut off, "
            "export it again; otherwise correct `footer`, or remove it."
        )


class _OversizedRowError(csv.Error):
    """A row is longer than the limit."""


@dataclass
class _RowText:
    """The lines of a file, added to `lines` when read. An iterator that continues after an error.

    A row of more than `max_bytes` characters is cut.
    """

    text: io.TextIOWrapper
    lines: list[str]
    max_bytes: int
    size: int = 0  # characters in `lines`

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        line = self.text.readline(self.max_bytes + 1)
        if not line:
            raise StopIteration
        self.size = len(line) + (self.size if self.lines else 0)
        self.lines.append(line)
        if self.size > self.max_bytes:
            self._skip_line(line)
            raise _OversizedRowError(oversized(self.max_bytes).reason)
        return line

    def _skip_line(self, part: str) -> None:
        while part and not part.endswith(_LINE_ENDS):
            part = self.text.readline(_SKIPPED_CHARACTERS)


def _next(reader: Iterator[list[str]]) -> list[str] | csv.Error | None:
    try:
        return next(reader, None)
    except csv.Error as error:
        return error


def _text(cell: str) -> str:
    """Return the text of a cell that is a spreadsheet's formula for it, as `="0073"`; others as they are."""
    match = _TEXT_FORMULA.fullmatch(cell)
    return match[1].replace('""', '"').strip() if match else cell


def _row(file: str, number: int, lines: list[str], cells: list[str] | csv.Error, encoding: str) -> CsvRow:
    data = "".join(lines).encode(errors="surrogateescape")
    if isinstance(cells, list):
        error = None if _is_utf8(data) else f"is not valid {encoding.upper()}"
        stripped = [cell.strip() for cell in cells]
        return CsvRow(number, data, [*map(_text, stripped)] if b"=" in data else stripped, error)
    if len(lines) > 1:
        raise SourceError(
            f"{file}: a quotation mark opened in line {number} spans lines up to {number + len(lines) - 1}: {cells}."
        )
    is_oversized = isinstance(cells, _OversizedRowError)
    return CsvRow(number, data, [], str(cells) if is_oversized else f"is not a valid CSV row: {cells}")
