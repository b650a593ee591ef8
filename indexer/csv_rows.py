"""The rows of a CSV file, with where each begins and with its text as it stands there."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, NamedTuple

from indexer.errors import SourceError
from indexer.packed import damage_told

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Row(NamedTuple):
    """One row. `number` is that of its first line; cells have no space round them; `fault` says why there are none."""

    number: int
    data: bytes
    cells: list[str]
    fault: str | None


def csv_rows(file: str, plain: io.BufferedReader) -> Iterator[Row]:
    """Yield every row that is not blank, the header too; raise SourceError where rows cannot be told apart any more."""
    # A byte that is no UTF-8 spoils its row, not the file.
    text = io.TextIOWrapper(plain, "utf-8-sig", errors="surrogateescape", newline="")
    lines: list[str] = []
    reader, number = csv.reader(_recorded(text, lines), strict=True), 0
    with damage_told(file, lambda: number):
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
    """Return the next row's cells, or why it has none; None at the end."""
    try:
        return next(reader, None)
    except csv.Error as error:
        return str(error)


def _row(file: str, number: int, lines: list[str], cells: list[str] | str) -> Row:
    data = "".join(lines).encode(errors="surrogateescape")
    if isinstance(cells, list):
        fault = None if _is_text(data) else "is no UTF-8"
        return Row(number, data, [cell.strip() for cell in cells], fault)
    if len(lines) > 1:
        raise SourceError(
            f"{file}: a quotation mark opened in line {number} swallows lines up to {number + len(lines) - 1}: {cells}."
        )
    return Row(number, data, [], f"is no row of CSV: {cells}")


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
