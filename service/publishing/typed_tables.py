"""What writes typed tables. It needs a library that not every installation has, so the command brings it."""

from collections.abc import Callable, Mapping
from typing import IO, Protocol


class TypedTables(Protocol):
    """Writes the typed tables of some records."""

    def add(self, lines: bytes, /) -> None:
        """Add lines of a snapshot; raise ValueError for a value that is not of its column's type."""

    def finish(self) -> Mapping[str, int]:
        """Complete and close the files; return the rows of each table, the resource's own first."""

    def close(self) -> None:
        """Close the files, whatever they hold."""


class OpenTables(Protocol):
    """Opens the tables of a resource."""

    def __call__(self, resource: str, create: Callable[[str], IO[bytes]], /) -> TypedTables:
        """Return what writes them to the files that `create` opens by the name of a table."""
