"""The interface of a source of envelopes: one resource at a time for rebuilds, one stream of changes for updates."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from indexer.errors import InvalidRecordError, SourceError
from mappings import RESOURCES, Resource


class SourceLine(NamedTuple):
    """One envelope as received, with its file and line number.

    `before` is a number of lines in earlier files of the resource. A line that is not `is_dated` has the time of the
    run as its `updated_at`, because the source has none: its content decides whether it is a change.
    """

    file: str
    number: int
    data: bytes
    before: int = 0
    is_dated: bool = True

    @property
    def position(self) -> int:
        """The position among the lines of the resource, which increases from line to line."""
        return self.before + self.number


class RejectedLine(NamedTuple):
    """A line without a valid envelope, and why. `resource` is None if the line does not name one.

    `identifiers` are those of the records that the line was about, None if they are unknown.
    """

    line: SourceLine
    error: InvalidRecordError
    resource: Resource | None
    identifiers: frozenset[str] | None = None

    @property
    def number(self) -> int:
        """The number of the line in its file."""
        return self.line.number

    @property
    def position(self) -> int:
        """The position of the line among those of its resource."""
        return self.line.position

    @property
    def data(self) -> bytes:
        """The line as received."""
        return self.line.data


@dataclass(frozen=True)
class LineStream:
    """The open lines of one resource; `position` returns how many of the `total` stored bytes have been read.

    `stray` is the number of lines that may be of this resource but are reported with another: they do not name theirs.
    """

    lines: Iterator[SourceLine | RejectedLine]
    total: int
    position: Callable[[], int]
    stray: int = 0

    @property
    def accepted_lines(self) -> Iterator[SourceLine]:
        """The lines that are not rejected, for passes that do not report errors."""
        return (line for line in self.lines if not isinstance(line, RejectedLine))


@dataclass(frozen=True)
class ChangeStream:
    """An open stream of changes of any resource, in the order in which they take effect.

    Each line is yielded as soon as it arrives. `total` is in bytes, 0 if unknown. `identity` changes with the content;
    it is None for a stream that can be read only once.
    """

    lines: Iterator[tuple[Resource, SourceLine] | RejectedLine]
    total: int
    position: Callable[[], int]
    identity: str | None = None


class Source(Protocol):
    """A source of envelopes. Errors of the source as a whole raise SourceError.

    Call `open`, `identity` and `taken_at` only for resources that it has.
    """

    def has(self, resource: Resource) -> bool:
        """Whether the source has the resource."""

    def open(self, resource: Resource) -> AbstractContextManager[LineStream]:
        """Open the resource's envelopes for one pass; each pass yields the same lines."""

    def identity(self, resource: Resource) -> str:
        """Return a hexadecimal fingerprint that changes when the resource's content has very likely changed."""

    def taken_at(self, resource: Resource) -> int:
        """Return the time of the resource's state in the source, in microseconds since 1970."""

    def changes(self) -> AbstractContextManager[ChangeStream]:
        """Open all resources for one pass. Standard input cannot be opened again afterwards."""


@contextmanager
def chained_resources(source: Source) -> Iterator[ChangeStream]:
    """Open a source's resources as one stream, companies first, since all others refer to them."""
    present = [resource for resource in RESOURCES if source.has(resource)]
    chain = _ResourceChain(source, present)
    lines = chain.lines()
    try:
        identity = ",".join(source.identity(resource) for resource in present)
        yield ChangeStream(lines, chain.total(), lambda: chain.done + chain.position(), identity)
    finally:
        # A generator that another thread is reading cannot be closed; that thread drops it after the current line.
        with suppress(ValueError):
            lines.close()


@dataclass
class _ResourceChain:
    source: Source
    resources: list[Resource]
    done: int = 0
    position: Callable[[], int] = int  # 0 while nothing is open

    def total(self) -> int:
        total = 0
        for resource in self.resources:
            with self.source.open(resource) as stream:
                total += stream.total
        return total

    def lines(self) -> Generator[tuple[Resource, SourceLine] | RejectedLine]:
        for resource in self.resources:
            with self.source.open(resource) as stream:
                self.position = stream.position
                for line in stream.lines:
                    yield line._replace(resource=resource) if isinstance(line, RejectedLine) else (resource, line)
            self.done, self.position = self.done + stream.total, int


def require_present(source: Source, resources: Sequence[Resource]) -> list[Resource]:
    """Return the resources that a source has; raise SourceError if it has none of them."""
    if present := [resource for resource in resources if source.has(resource)]:
        return present
    raise SourceError(f"The source has nothing for any of: {', '.join(resource.alias for resource in resources)}.")
