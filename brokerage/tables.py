"""Tables on standard output: as wide as the terminal, never truncated in a pipe or a file.

Those of any number of rows are printed line by line; Rich takes a millisecond for each row.
"""

import os
import shutil
import sys
from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import rich_click as click
from rich.cells import cell_len, chop_cells, set_cell_size
from rich.table import Table

from cluster.terminal import SafeConsole

# Columns. A pipe has no width of its own, and a default one would truncate tables.
_PIPE_WIDTH = 1000


def print_table(table: Table, *, err: bool = False) -> None:
    """Print a table; cells are texts, never markup."""
    stream = sys.stderr if err else sys.stdout
    SafeConsole(stderr=err, width=None if stream.isatty() else _PIPE_WIDTH, markup=False).print(table)


def plain_table(*columns: str, folded: Collection[str], **options: Any) -> Table:
    """Return a table without borders; the cells of the columns `folded` may be wrapped."""
    table = Table(box=None, pad_edge=False, **options)
    for column in columns:
        is_folded = column in folded
        table.add_column(column, no_wrap=not is_folded, overflow="fold" if is_folded else "ellipsis")
    return table


_GAP = "  "
# Cells; a column that folds gets at least so many.
_MIN_FOLDED_WIDTH = 8


class Column(NamedTuple):
    """A heading, and whether its cells may be folded when the terminal is too narrow."""

    heading: str
    may_fold: bool = False


def terminal_width() -> int | None:
    """Return the width of the terminal in cells; None for a pipe or a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def may_style() -> bool:
    """Return whether standard output is a terminal that shows styles (https://no-color.org)."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def table_lines(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None, styles: Sequence[str] = ()
) -> Iterator[str]:
    """Yield the lines of a table. `styles` are the colours, or `dim`, of the last cells of the rows, if styled."""
    cells = [[column.heading for column in columns], *([*map(_printable, row)] for row in rows)]
    widths = _widths(columns, cells, width)
    yield _lines(cells[0], widths, "bold" if styles else "")
    for number, row in enumerate(cells[1:]):
        yield _lines(row, widths, styles[number] if styles else "")


def _printable(text: str) -> str:
    """Replace control characters, which could move the cursor of a terminal."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "\ufffd" for char in text)


def _widths(columns: Sequence[Column], cells: list[list[str]], width: int | None) -> list[int]:
    """Return the widths of the columns; those that may fold are narrowed, the widest first, to fit into `width`."""
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    folded = [number for number, column in enumerate(columns) if column.may_fold]
    excess = 0 if width is None else sum(widths) + len(_GAP) * (len(widths) - 1) - width
    for _ in range(excess):
        widest = max(folded, key=widths.__getitem__)
        widths[widest] = max(_MIN_FOLDED_WIDTH, widths[widest] - 1)
    return widths


def _lines(row: Sequence[str], widths: Sequence[int], style: str) -> str:
    """Return a row as one line, or as several if a cell is folded."""
    folded = [
        [cell] if cell_len(cell) <= width else chop_cells(cell, width) for cell, width in zip(row, widths, strict=True)
    ]
    return "\n".join(_line(parts, widths, style) for parts in zip_longest(*folded, fillvalue=""))


def _line(parts: Sequence[str], widths: Sequence[int], style: str) -> str:
    padded = [set_cell_size(part, width) for part, width in zip(parts[:-1], widths, strict=False)]
    return _GAP.join([*padded, _styled(parts[-1], style)]).rstrip()


def _styled(text: str, style: str) -> str:
    if style in {"dim", "bold"}:
        return click.style(text, **{style: True})
    return click.style(text, fg=style) if style else text
