"""The sample of a table: which row is its header, its first rows, and the rows around them that are no records."""

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice

from indexer.drafting.columns import known_columns
from indexer.errors import SourceError
from indexer.source.files import Beginning, is_compressed, open_raw
from indexer.source.tables.column_map import numbered_columns
from indexer.source.tables.rows import HEADER_ROWS, CsvRow, FoundHeader, TableFile, read_csv_rows

_SAMPLED_ROWS = 2_000
_SAMPLED_BYTES = 1 << 24
_SAMPLED_LINES = 1_000_000
_ROW_BYTES = 1 << 20
_END_BYTES = 1 << 16
_END_ROWS = 5
# A sentence is no identifier: notes of a table have at least so many words.
_MIN_WORDS = 3
_PATTERN_WORDS = 4
_MIN_KNOWN_COLUMNS = 2
_COUNTED = r"(?:listing|record|row|result)s?"
_FOOTER = re.compile(
    rf"\W*(?:(?:grand\s|sub-?)?totals?|end of|count|(?:number of )?{_COUNTED}(?=:)|[0-9][0-9,.]* {_COUNTED})\b:?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class TableSample:
    """The header of a file, its first rows of as many cells, and its other rows: those with one text, and its end."""

    header: FoundHeader
    all_rows: list[list[str]]
    end: list[list[str]]

    @cached_property
    def columns(self) -> list[str]:
        """The names of the columns, numbered where several have the same."""
        return numbered_columns(self.header.row.cells)

    @cached_property
    def footer(self) -> str | None:
        """The regular expression of the last row, None if that is a record."""
        last = self.end[-1] if self.end else []
        texts = list(filter(None, last))
        found = _FOOTER.match(texts[0]) if texts and len(texts) < len(self.columns) else None
        is_sparse = 2 * len(texts) <= len(self.columns)
        return _pattern(found[0]) if found and (is_sparse or found[0].endswith(":")) else None

    @property
    def footer_column(self) -> str:
        """The column of the first text of the last row, empty if it has no name."""
        index = next(index for index, cell in enumerate(self.end[-1]) if cell)
        return self.columns[index] if index < len(self.columns) else ""

    @cached_property
    def remarks(self) -> dict[str, str]:
        """Regular expressions of rows with a sentence as their only text, and the columns that it is in."""
        found = {}
        last = self.end[-1] if self.footer else None
        for row in chain(self.all_rows, self.end):
            if (
                row != last
                and (index := _remark(row)) is not None
                and index < len(self.columns)
                and self.columns[index]
            ):
                found[_pattern(" ".join(row[index].split()[:_PATTERN_WORDS]))] = self.columns[index]
        return found

    @cached_property
    def rows(self) -> list[list[str]]:
        """The rows that are probably records."""
        last = self.end[-1] if self.footer else None
        return [row for row in self.all_rows if len(row) == len(self.columns) and row != last and _remark(row) is None]


def _remark(row: list[str]) -> int | None:
    """Return the column of the only text of a row, if that is a sentence."""
    texts = [index for index, cell in enumerate(row) if cell]
    return texts[0] if len(texts) == 1 and len(row[texts[0]].split()) >= _MIN_WORDS else None


def _pattern(text: str) -> str:
    """Return the regular expression of texts that begin like one, with any numbers."""
    return "^" + re.sub(r"[0-9][0-9,.]*", "[0-9,.]+", re.escape(text).replace("\\ ", " ").replace("\\-", "-"))


def read_sample(file: TableFile) -> TableSample:
    """Read the beginning of a file and, if it is not compressed, its end.

    Raises SourceError without a header, or for an endless row.
    """
    with file.open() as plain:
        # Longer than the rows of a sample: only blank lines and a row without an end reach it.
        beginning = Beginning(plain.reader, _SAMPLED_BYTES + 4 * _ROW_BYTES, _SAMPLED_LINES)
        rows = read_csv_rows(file.name, io.BufferedReader(beginning), _ROW_BYTES, file.form)
        first = list(islice(rows, HEADER_ROWS))
        if not first and beginning.lines:
            raise SourceError(f"{file.name} has no header: its first {beginning.lines:,} lines are blank.")
        header = guess_header(first, file.name)
        sample, size, is_complete = list[list[str]](), 0, True
        for row in chain(first[len(header.titles) + 1 :], rows):
            if len(row.data) > _ROW_BYTES:
                raise SourceError(
                    f"{file.name}: line {row.number} has more than {_ROW_BYTES:,} bytes: is the end of a line or a "
                    "quotation mark missing?"
                )
            size += len(row.data)
            if size > _SAMPLED_BYTES or len(sample) == _SAMPLED_ROWS:
                is_complete = False
                break
            sample.append(row.cells)
    return TableSample(header, sample, sample[-_END_ROWS:] if is_complete else _end(file))


def guess_header(first: Sequence[CsvRow], file: str) -> FoundHeader:
    """Return which of the first rows has the names of the columns, with the rows above it; raise SourceError.

    It is the row with the most names of known columns, if it has more texts than each row above it; otherwise the first
    that has texts in more than half of the columns.
    """
    rows = [row for row in first if not row.error]
    if not rows:
        raise SourceError(f"{file} has no header: its first line {first[0].error if first else 'is empty'}.")
    texts = {row.number: sum(map(bool, row.cells)) for row in rows}
    best = max(rows, key=lambda row: known_columns(row.cells))
    is_known = known_columns(best.cells) >= _MIN_KNOWN_COLUMNS
    if not is_known or any(texts[row.number] >= texts[best.number] for row in rows[: rows.index(best)]):
        best = next(row for row in rows if 2 * texts[row.number] > max(texts.values()))
    return FoundHeader(best, list(first[: list(first).index(best)]))


def _end(file: TableFile) -> list[list[str]]:
    """Return the last rows of a file that is not compressed, each from one line."""
    with open_raw(file.path) as raw:
        if file.member is not None or file.is_workbook or is_compressed(raw):
            return []
        # Units of UTF-16 and UTF-32 begin at multiples of four.
        raw.seek(max(0, file.size - _END_BYTES) // 4 * 4)
        text = raw.read().decode(file.form.encoding, "replace")
    lines = [line for line in text.splitlines() if line.strip()][1:]
    rows = csv.reader(lines[-_END_ROWS:], delimiter=file.form.delimiter)
    try:
        return [stripped for row in rows if any(stripped := [cell.strip() for cell in row])]
    except csv.Error:
        return []


def repeated_names(sample: TableSample) -> dict[str, str]:
    """Return the names in the header of the columns that have one in common with others, by their own."""
    counts = Counter(sample.header.row.cells)
    named = zip(sample.columns, sample.header.row.cells, strict=True)
    return {column: name for column, name in named if name and counts[name] > 1}
