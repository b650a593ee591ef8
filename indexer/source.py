"""What every source of envelopes offers: whole resources for rebuilds, and one walk through everything for updates."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mappings import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from contextlib import AbstractContextManager

    from indexer.errors import ItemError
    from mappings import Resource


class Line(NamedTuple):
    """One envelope as it came, and where it stands."""

    file: str
    number: int
    data: bytes


class Fault(NamedTuple):
    """A line that came to no envelope, and why. `resource` is None where the line does not tell whose it is."""

    line: Line
    error: ItemError
    resource: Resource | None

    @property
    def number(self) -> int:
        """The number of the line."""
        return self.line.number

    @property
    def data(self) -> bytes:
        """The line as it came."""
        return self.line.data


@dataclass(frozen=True)
class Reading:
    """An open source of one resource: its lines, and how far into its `total` bytes on disk they have been read."""

    lines: Iterator[Line | Fault]
    total: int
    position: Callable[[], int]

    @property
    def sound(self) -> Iterator[Line]:
        """The lines without the faults, for passes beside the one that reports them."""
        return (line for line in self.lines if not isinstance(line, Fault))


@dataclass(frozen=True)
class Feed:
    """An open source of changes of any resource, in the order in which they take effect.

    A line is handed on as soon as it is there. `total` is in bytes, 0 where nobody knows it. `identity` changes with
    the content; it is None for what can be read only once.
    """

    lines: Iterator[tuple[Resource, Line] | Fault]
    total: int
    position: Callable[[], int]
    identity: str | None = None


class Source(Protocol):
    """Anything that yields envelopes. Whatever is wrong with a source as a whole is a SourceError.

    `open`, `identity` and `taken_at` are for resources that it has.
    """

    def has(self, resource: Resource) -> bool:
        """Whether the source says anything about the resource."""

    def open(self, resource: Resource) -> AbstractContextManager[Reading]:
        """Open the resource's envelopes for one pass; every pass yields the same."""

    def identity(self, resource: Resource) -> str:
        """Return hexadecimal digits that change when what the source says of the resource has very likely changed."""

    def taken_at(self, resource: Resource) -> int:
        """Return as of when the source speaks of the resource, in microseconds since 1970."""

    def changes(self) -> AbstractContextManager[Feed]:
        """Open everything for one pass in order. Standard input cannot be opened in any way after that."""


@contextmanager
def one_after_another(source: Source) -> Iterator[Feed]:
    """Open a source's resources as one feed, companies first, since all others refer to them."""
    present = [resource for resource in RESOURCES if source.has(resource)]
    walk = _Walk(source, present)
    lines = walk.lines()
    try:
        identity = ",".join(source.identity(resource) for resource in present)
        yield Feed(lines, walk.total(), lambda: walk.done + walk.position(), identity)
    finally:
        # A thread that is about to read a line cannot be stopped in it; it lets go of the lines behind it.
        with suppress(ValueError):
            lines.close()


@dataclass
class _Walk:
    source: Source
    resources: list[Resource]
    done: int = 0
    position: Callable[[], int] = int  # 0 while nothing is open

    def total(self) -> int:
        total = 0
        for resource in self.resources:
            with self.source.open(resource) as reading:
                total += reading.total
        return total

    def lines(self) -> Generator[tuple[Resource, Line] | Fault]:
        for resource in self.resources:
            with self.source.open(resource) as reading:
                self.position = reading.position
                for line in reading.lines:
                    yield line if isinstance(line, Fault) else (resource, line)
            self.done, self.position = self.done + reading.total, int
