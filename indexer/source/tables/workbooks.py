"""Excel workbooks as tables: a sheet is read as the CSV file that its program would save.

openpyxl reads row by row, so a sheet needs no more memory than a row, besides the texts that all sheets share; what a
workbook unpacks to is bounded before it is read.
"""

import csv
import datetime as dt
import io
import re
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, BinaryIO

from indexer.errors import SourceError

_MAX_BYTES = 1 << 29  # unpacked
_BLOCK_BYTES = 1 << 20
# A cell with a formula and without a value, as programs write it that do not compute.
_UNSAVED = re.compile(rb"</f>(?:<v ?/>|<v></v>)?</c>")
_OVERLAP_BYTES = 32
# A float has all digits of whole numbers up to here.
_MAX_WHOLE = 2**53
# What openpyxl and zipfile raise for files that are damaged, encrypted or something else.
_DAMAGE: tuple[type[Exception], ...] = (
    *(ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, SyntaxError, TypeError, ValueError),
    *(zipfile.BadZipFile, zlib.error),
)


def open_sheet(path: Path, name: str, sheet: str | None) -> BinaryIO:
    """Return a sheet of a workbook, by default the first, as CSV in UTF-8, in a temporary file.

    Row N of the sheet is line N, unless cells have several lines. Raises SourceError.
    """
    with _opened(path, name) as book:
        if sheet and sheet not in book.sheetnames:
            raise SourceError(f"{name} has no sheet {sheet!r}: it has {', '.join(book.sheetnames)}.")
        found = book[sheet] if sheet else book.worksheets[0]
        # What it says of its size may be wrong, and would add cells to each row.
        found.reset_dimensions()
        return _written(found.iter_rows(values_only=True), name)


def sheet_names(path: Path, name: str) -> list[str]:
    """Return the names of the sheets of a workbook, in order; raise SourceError."""
    with _opened(path, name) as book:
        names: list[str] = book.sheetnames
        return names


@contextmanager
def _opened(path: Path, name: str) -> Iterator[Any]:
    try:
        from openpyxl import load_workbook  # noqa: PLC0415 - an optional package
    except ImportError:
        raise SourceError(
            f"{name} is an Excel workbook, which needs openpyxl: pip install openpyxl. Or save the "
            "sheet as CSV in UTF-8, and name that file."
        ) from None
    try:
        _require_bounded(path, name)
        # Not by its path, of which openpyxl requires an ending; warnings are about styles.
        with path.open("rb") as raw, warnings.catch_warnings(action="ignore"):
            yield load_workbook(raw, read_only=True, data_only=True)
    except _DAMAGE as error:
        raise SourceError(
            f"{name} cannot be read as an Excel workbook ({error}): save the sheet as CSV in UTF-8, and name that file."
        ) from error


def _require_bounded(path: Path, name: str) -> None:
    """Raise SourceError for a workbook that unpacks to too much, whatever it says, or lacks values of its formulas."""
    size = 0
    with zipfile.ZipFile(path) as archive:
        for member in map(copy, archive.infolist()):
            member.file_size = _MAX_BYTES + 2 * _BLOCK_BYTES  # read on behind the size that it states
            with archive.open(member) as part:
                end = b""
                while block := part.read(_BLOCK_BYTES):
                    if (size := size + len(block)) > _MAX_BYTES:
                        raise _too_large(name)
                    if _UNSAVED.search(end + block):
                        raise SourceError(
                            f"{name} has formulas whose values are not saved in it, which would be empty: open it in "
                            "Excel and save it."
                        )
                    end = block[-_OVERLAP_BYTES:]


def _too_large(name: str) -> SourceError:
    size = f"{_MAX_BYTES >> 20} MB"
    return SourceError(f"{name} unpacks to more than {size}: save the sheet as CSV in UTF-8, and name that file.")


def _written(rows: Iterable[tuple[object, ...]], name: str) -> BinaryIO:
    plain = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        _write(rows, plain, name)
    except BaseException:
        plain.close()
        raise
    plain.seek(0)
    return plain


def _write(rows: Iterable[tuple[object, ...]], plain: BinaryIO, name: str) -> None:
    text = io.TextIOWrapper(plain, "utf-8", newline="", write_through=True)
    write, width = csv.writer(text, lineterminator="\n").writerow, 0
    for row in rows:
        cells = [_text(cell) for cell in row]
        if any(cells):
            # openpyxl ends a row with its last cell, Excel with the last column that has been used so far.
            width = max(width, len(cells))
            cells += [""] * (width - len(cells))
        write(cells)
        if plain.tell() > _MAX_BYTES:
            raise _too_large(name)
    text.detach()


def _text(cell: object) -> str:
    """Return the text of a cell: whole numbers without a fraction, dates and times in ISO 8601."""
    match cell:
        case None:
            return ""
        case bool():
            return "true" if cell else "false"
        case float() if cell.is_integer() and abs(cell) <= _MAX_WHOLE:
            return str(int(cell))
        case dt.datetime() if cell.time() == dt.time():
            return cell.date().isoformat()
        case dt.datetime() | dt.date() | dt.time():
            return cell.isoformat(sep=" ") if isinstance(cell, dt.datetime) else cell.isoformat()
        case _:
            return str(cell)
