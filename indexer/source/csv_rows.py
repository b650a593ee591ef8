"""The rows of a CSV file, each with its line number and its original bytes."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, NamedTuple

from indexer.errors import SourceError
from indexer.source.compression import report_damage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class CsvRow(NamedTuple):
    """One row: the number of its first line, its bytes, its stripped cells, and why it is invalid, if it is."""

    number: int
    data: bytes
    cells: list[str]
    error: str | None


def read_csv_rows(file: str, plain: io.BufferedReader) -> Iterator[CsvRow]:
    """Yield every row that is not blank, including the header; raise SourceError if a quote spans several rows."""
    # An invalid byte invalidates its row, not the file.
    text = io.TextIOWrapper(plain, "utf-8-sig", errors="surrogateescape", newline="")
    lines: list[str] = []
    reader, number = csv.reader(_recorded(text, lines), strict=True), 0
    with report_damage(file, lambda: number):
        while (cells := _next(reader)) is not None:
            first, number = number + 1, number + len(lines)
            if cells:
                yield _row(file, first, lines, cells)
            lines.clear()


def _recorded(text: Iterable[str], lines: list[str]) -> Iterator[str]:
    for line in text:
        lines.append(line)
        yield line


def _next(reader: Iterator[list[str]]) -> list[str] | str | None:
    """Return the cells of the next row, the parser's error message, or None at the end."""
    try:
        return next(reader, None)
    except csv.Error as error:
        return str(error)


def _row(file: str, number: int, lines: list[str], cells: list[str] | str) -> CsvRow:
    data = "".join(lines).encode(errors="surrogateescape")
    if isinstance(cells, list):
        error = None if _is_utf8(data) else "is not valid UTF-8"
        return CsvRow(number, data, [cell.strip() for cell in cells], error)
    if len(lines) > 1:
        raise SourceError(
            f"{file}: a quotation mark opened in line {number} spans lines up to {number + len(lines) - 1}: {cells}."
        )
    return CsvRow(number, data, [], f"is not a valid CSV row: {cells}")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
