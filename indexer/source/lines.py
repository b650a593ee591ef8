"""The interface of a source of envelopes: one resource at a time for rebuilds, one stream of changes for updates.

Also: the identifiers in lines that are not valid JSON, and the queue from which an update takes its lines.
"""

import asyncio
import re
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Generic, NamedTuple, Protocol, TypeVar

import orjson

from indexer.errors import InvalidRecordError, SourceError
from indexer.settings import TroublePolicy
from mappings import RESOURCES, Resource


class Period(NamedTuple):
    """When an `updated_at` is that is left open, in microseconds since 1970; `by_arrival`: later lines are newer."""

    start: int
    end: int
    by_arrival: bool

    def has(self, microseconds: int) -> bool:
        return self.start <= microseconds < self.end


class SourceLine(NamedTuple):
    """One envelope as received, with its file and line number.

    `before` is a number of lines in earlier files of the resource. A line that is not `is_dated` has the time of the
    run as its `updated_at`, because the source has none: its content decides whether it is a change. With a `period`
    its time is left open. `policy` is what becomes of its record if it cannot be read; None: what the setting says. A
    value whose path is in `optional` is left out if it cannot be read; `emptied` are the faults of those that were.
    """

    file: str
    number: int
    data: bytes
    before: int = 0
    is_dated: bool = True
    optional: frozenset[str] = frozenset()
    emptied: tuple[InvalidRecordError, ...] = ()
    period: Period | None = None
    policy: TroublePolicy | None = None

    @property
    def position(self) -> int:
        return self.before + self.number


class RejectedLine(NamedTuple):
    """A line without a valid envelope, and why. `resource` is None if the line does not name one.

    `identifiers` are those of the records that the line was about, None if they are unknown. `rest` is the envelope
    without the values at fault, if there is one.
    """

    line: SourceLine
    error: InvalidRecordError
    resource: Resource | None
    identifiers: frozenset[str] | None = None
    rest: bytes = b""

    @property
    def number(self) -> int:
        return self.line.number

    @property
    def position(self) -> int:
        """The position of the line among those of its resource."""
        return self.line.position

    @property
    def data(self) -> bytes:
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


class RowNotes(NamedTuple):
    """What a source of tables says of its rows, in sentences without full stops.

    By resource, how many it left out, by reason, and warnings of damaged cells; and what it left open of times without
    an offset.
    """

    skipped: Mapping[str, Mapping[str, int]]
    warnings: Mapping[str, list[str]]
    times: list[str]


def row_notes(source: Source) -> RowNotes:
    """Return the notes of the last complete pass of a source; other sources have none."""
    return RowNotes(getattr(source, "skipped", {}), getattr(source, "warnings", {}), getattr(source, "times", []))


def require_present(source: Source, resources: Sequence[Resource]) -> list[Resource]:
    """Return the resources that a source has; raise SourceError if it has none of them."""
    if present := [resource for resource in resources if source.has(resource)]:
        return present
    raise SourceError(f"The source has nothing for any of: {', '.join(resource.alias for resource in resources)}.")


# An envelope has each at most once, so a damaged line that has one more often is several envelopes that ran together.
_ENVELOPE_KEYS = ("record", "updated_at", "platform_company_id", "resource", "deleted")
# Nor does an object begin inside a value or a key.
_TORN = re.compile(rb'[^\s,:\[}]\s*\{"')
# The longest text that is read, escaped.
_MAX_TEXT_BYTES = 1600


def recovered_values(data: bytes, member: str) -> frozenset[str]:
    """Return the texts and whole numbers that a line has for a member, at any depth.

    A key inside a string does not count: its quotes are escaped.
    """
    return frozenset(filter(None, map(_text, _pattern(member).findall(data))))


def recovered_identifiers(data: bytes, member: str) -> frozenset[str] | None:
    """Return the identifiers in a damaged line; None if it may have been about more records than it names.

    Two lines that ran into each other are about two records.
    """
    identifiers = recovered_values(data, member)
    envelopes = max(len(_key(key).findall(data)) for key in _ENVELOPE_KEYS if key != member)
    return identifiers if len(identifiers) >= max(envelopes + len(_TORN.findall(data)), 1) else None


@cache
def _key(member: str) -> re.Pattern[bytes]:
    return re.compile(rb'"%b"\s*:' % re.escape(member.encode()))


@cache
def _pattern(member: str) -> re.Pattern[bytes]:
    text = rb'"(?:[^"\\\x00-\x1f]|\\.){0,%d}"' % _MAX_TEXT_BYTES
    return re.compile(rb'"%b"\s*:\s*(%b|-?[0-9]{1,128}(?=[\s,}\]]))' % (re.escape(member.encode()), text))


def _text(value: bytes) -> str | None:
    try:
        return str(orjson.loads(value))
    except orjson.JSONDecodeError:
        return None


Queued = TypeVar("Queued")

# A batch waits this long for more lines after its first one.
_LINGER_SECONDS = 0.25
# After this long without a line an empty batch is returned, so that the run can publish and release its locks.
_IDLE_SECONDS = 1.0


class BoundedQueue(Generic[Queued]):
    """A queue of about two batches, filled by its own thread, so that a blocking read does not block the run."""

    def __init__(
        self, items: Iterator[Queued], batch_size: int, batch_bytes: int, bytes_of: Callable[[Queued], int]
    ) -> None:
        """Start reading; a batch has at most `batch_size` items, and at most `batch_bytes` or one item."""
        self._items = items
        self._batch_size = batch_size
        self._batch_bytes = batch_bytes
        self._bytes_of = bytes_of
        self._bytes = 0  # in the queue
        self._queue: deque[Queued] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._failure: Exception | None = None
        threading.Thread(target=self._fill, daemon=True, name="source").start()

    def _fill(self) -> None:
        try:
            for item in self._items:
                with self._changed:
                    self._changed.wait_for(lambda: not self._has_batches(2) or self._is_closed)
                    if self._is_closed:
                        return
                    self._queue.append(item)
                    self._bytes += self._bytes_of(item)
                    self._changed.notify_all()
        except Exception as failure:
            self._failure = failure
        finally:
            self.close()

    async def batches(self) -> AsyncGenerator[list[Queued], None]:
        """Yield batches, empty ones when idle, and stop reading at the end; raise the error of the source."""
        try:
            while (batch := await asyncio.to_thread(self.take_batch)) is not None:
                yield batch
        finally:
            self.close()

    def take_batch(self) -> list[Queued] | None:
        """Return the next batch, an empty one when idle, None at the end; raise the error of the source."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_closed, _IDLE_SECONDS)
            deadline = time.monotonic() + _LINGER_SECONDS
            while self._queue and not self._has_batches(1) and not self._is_closed:
                if not self._changed.wait(deadline - time.monotonic()):
                    break
            batch = self._next_batch()
            self._changed.notify_all()
            if not batch and self._failure is not None:
                raise self._failure
            return batch if batch or not self._is_closed else None

    def _has_batches(self, count: int) -> bool:
        return len(self._queue) >= count * self._batch_size or self._bytes >= count * self._batch_bytes

    def _next_batch(self) -> list[Queued]:
        batch, size = list[Queued](), 0
        while self._queue and len(batch) < self._batch_size:
            size += self._bytes_of(self._queue[0])
            if batch and size > self._batch_bytes:
                break
            batch.append(self._queue.popleft())
        self._bytes -= sum(map(self._bytes_of, batch))
        return batch

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
