"""Tables on standard output: as wide as the terminal, never truncated in a pipe or a file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cluster.safe_console import SafeConsole

if TYPE_CHECKING:
    from rich.table import Table

# Columns. A pipe has no width of its own, and a default one would truncate tables.
_PIPE_WIDTH = 1000


def print_table(table: Table) -> None:
    """Print a table; cells are texts, never markup."""
    SafeConsole(width=None if sys.stdout.isatty() else _PIPE_WIDTH, markup=False).print(table)
