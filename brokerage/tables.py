"""Tables on standard output: as wide as the terminal, and uncut where a pipe or a file takes them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from rich.table import Table

# A pipe has no width; a table must not be cut to a guessed one.
_UNCUT = 1000


def show(table: Table) -> None:
    """Print a table."""
    Console(width=None if sys.stdout.isatty() else _UNCUT).print(table)
