"""The rows of a table, each with its line number and its text in UTF-8."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

from indexer.errors import SourceError
from indexer.source.bounded_lines import oversized
from indexer.source.compression import report_damage
from indexer.source.tables.text_detection import UTF_8, TextDialect

_LINE_ENDS = ("\n", "\r")
_SKIPPED_CHARACTERS = 1 << 16


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

    A row of more than `max_bytes` is invalid, and its rest is not kept. Without `quote`, quotation marks are text.
    """
    # An invalid byte invalidates its row, not the file.
    name = "utf-8-sig" if form.encoding == UTF_8 else form.encoding
    text = io.TextIOWrapper(plain, name, errors="surrogateescape", newline="")
    lines: list[str] = []
    quoting = csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
    options = {"delimiter": form.delimiter, "quotechar": quote or None, "quoting": quoting}
    reader, number = csv.reader(_RowText(text, lines, max_bytes), strict=True, **options), 0  # type: ignore[arg-type]
    with report_damage(file, lambda: number):
        while (cells := _next(reader)) is not None:
            first, number = number + 1, number + len(lines)
            if cells:
                yield _row(file, first, lines, cells, form.encoding)
            lines.clear()


def header_cells(rows: Iterator[CsvRow], file: str) -> list[str]:
    """Return the cells of the first row; raise SourceError if there is none, or if it is invalid."""
    header = next(rows, None)
    if header is None or header.error:
        raise SourceError(f"{file} has no header: its first line {header.error if header else 'is empty'}.")
    return header.cells


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
    """Return the cells of the next row, the parser's error, or None at the end."""
    try:
        return next(reader, None)
    except csv.Error as error:
        return error


def _row(file: str, number: int, lines: list[str], cells: list[str] | csv.Error, encoding: str) -> CsvRow:
    data = "".join(lines).encode(errors="surrogateescape")
    if isinstance(cells, list):
        error = None if _is_utf8(data) else f"is not valid {encoding.upper()}"
        return CsvRow(number, data, [cell.strip() for cell in cells], error)
    if len(lines) > 1:
        raise SourceError(
            f"{file}: a quotation mark opened in line {number} spans lines up to {number + len(lines) - 1}: {cells}."
        )
    is_oversized = isinstance(cells, _OversizedRowError)
    return CsvRow(number, data, [], str(cells) if is_oversized else f"is not a valid CSV row: {cells}")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
