"""Loading by several processes: each loads one range of lines and has another waiting; one that ends is replaced.

Ranges are parts of a plain file, or the lines themselves. What a build and its loader processes exchange over pipes are
pickled messages, each after its length. A loader trusts its parent, and the parent the process that it started: no
other process has the pipe.
"""

from __future__ import annotations

import asyncio
import copyreg
import io
import os
import pickle
import struct
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias, cast

from cluster.connection import ConnectionSettings
from indexer.documents.companies import Companies
from indexer.errors import IndexerError, SourceError
from indexer.load.loader import DocumentSample, Load, LoadedLines, Pieces, SampledDocument
from indexer.lock import wait_for_bulk_tasks
from indexer.settings import IndexerContext, IndexerSettings
from indexer.source.files import is_compressed, numbered_lines, open_raw, report_damage
from indexer.source.lines import LineStream, RejectedLine, SourceLine
from mappings import RESOURCES, Resource
from mappings.shards import ShardRanges

_MAX_RANGE_BYTES = 8_000_000
_MIN_RANGE_BYTES = 32_000
# Of a small file each process reads several ranges, so that all of them end at about the same time.
_RANGES_PER_PROCESS = 16
_SKIPPED_BYTES = 1 << 16
_BULKS_PER_BATCH = 4


class FileRange(NamedTuple):
    """Whole lines of an uncompressed file, from byte `start` to before byte `position`, `lines` in number.

    `before` is the number of lines before them in the file. Lines up to the number `after` are left out.
    """

    path: Path
    start: int
    position: int
    before: int
    lines: int
    after: int

    @property
    def last_line(self) -> int:
        return self.before + self.lines

    def items(self, resource: Resource, max_bytes: int) -> Iterator[SourceLine | RejectedLine]:
        """Yield the lines; raise SourceError if the file has become shorter."""
        with open_raw(self.path) as raw:
            raw.seek(self.start)
            for item in numbered_lines(self.path.name, raw, max_bytes, resource, before=self.before):
                if item.number > self.last_line:
                    return
                if item.number > self.after:
                    yield item
            if raw.tell() < self.position:
                raise SourceError(f"{self.path} has become shorter while it was read: run the command again.")


class LineBatch(NamedTuple):
    position: int
    read: list[SourceLine | RejectedLine]

    @property
    def last_line(self) -> int:
        return self.read[-1].position

    def items(self, _resource: Resource, _max_bytes: int) -> Iterator[SourceLine | RejectedLine]:
        return iter(self.read)


# Some consecutive lines of a resource, and the stored bytes of the source up to their end.
LineRange: TypeAlias = FileRange | LineBatch


@dataclass
class FileRanges:
    """Divides an open, uncompressed file into ranges, from the line after number `after` on."""

    path: Path
    raw: io.BufferedReader
    range_bytes: int
    after: int
    _before: int = 0

    def __post_init__(self) -> None:
        self._block = bytearray(self.range_bytes)

    def read(self) -> FileRange | None:
        """Return the next range, None at the end. May run in a thread."""
        while (found := self._next()) is not None:
            if found.last_line > self.after:
                return found
        return None

    def _next(self) -> FileRange | None:
        start, before = self.raw.tell(), self._before
        with report_damage(self.path.name, lambda: before):
            size = self.raw.readinto(self._block)
            lines, last = self._block.count(b"\n", 0, size), bytes(self._block[max(0, size - 1) : size])
            while last and not last.endswith(b"\n"):
                last = self.raw.readline(_SKIPPED_BYTES) or b"\n"
                lines += last.endswith(b"\n")
        self._before += lines
        return FileRange(self.path, start, self.raw.tell(), before, lines, self.after) if lines else None


@dataclass
class LineBatches:
    """Divides a stream into batches of lines, each for a few bulk requests."""

    stream: LineStream
    settings: IndexerSettings

    def read(self) -> LineBatch | None:
        """Return the next lines, None at the end. May run in a thread."""
        items: list[SourceLine | RejectedLine] = []
        size = 0
        for item in islice(self.stream.lines, self.settings.bulk_documents * _BULKS_PER_BATCH):
            items.append(item)
            size += len(item.data)
            if size >= self.settings.bulk_bytes:
                break
        return LineBatch(self.stream.position(), items) if items else None


def divisible_file(source: object, resource: Resource) -> Path | None:
    """Return the file of a resource if it can be read from any line on, None if it must be read in one pass."""
    if (line_file := getattr(source, "line_file", None)) is None:
        return None
    path: Path = line_file(resource)
    with open_raw(path) as raw:
        return None if is_compressed(raw) else path


def range_size(file_bytes: int, processes: int) -> int:
    """Return the bytes of a range of a file that so many processes read."""
    return max(_MIN_RANGE_BYTES, min(_MAX_RANGE_BYTES, file_bytes // (_RANGES_PER_PROCESS * processes)))


_LENGTH = struct.Struct(">Q")


@dataclass(frozen=True)
class LoaderSettings:
    """The first message to a loader."""

    connection: ConnectionSettings
    indexer: IndexerSettings


@dataclass(frozen=True)
class LoadOrder:
    """Into which candidate the ranges that follow are loaded: behind the alias `fence`, with these shard ranges.

    `live` is the generation that it replaces, None for the first one; `built` are the run's other candidates.
    `opaque_id` is the X-Opaque-Id of writes.
    """

    resource: Resource
    companies: Companies
    live: str | None
    built: dict[str, str]
    fence: str
    opaque_id: str
    ranges: ShardRanges


class RangeOrder(NamedTuple):
    """A range to load, and its number among those that the loader was given."""

    number: int
    lines: LineRange


class RangeOutcome(NamedTuple):
    """What became of a range. `sample` are documents that the loader has added to its sample."""

    number: int
    loaded: LoadedLines
    sample: list[SampledDocument]


class RangeFailure(NamedTuple):
    number: int
    error: Exception


def packed(message: object) -> bytes:
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(content)) + content


async def received(stream: asyncio.StreamReader) -> Any:
    """Return the next message, None at the end of the stream, also if it ends within a message."""
    try:
        (size,) = _LENGTH.unpack(await stream.readexactly(_LENGTH.size))
        content = await stream.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return pickle.loads(content)  # noqa: S301 - of our own process, see above


def _resource(alias: str) -> Resource:
    return next(resource for resource in RESOURCES if resource.alias == alias)


# Resources are constants, compared by identity.
copyreg.pickle(Resource, lambda resource: (_resource, (resource.alias,)))


COMMAND = (sys.executable, "-P", "-m", "indexer.load.loader_main")


class LoaderExited(Exception):
    """A loader process ended before it answered; the text gives its exit code or signal."""


class LoaderProcess:
    """A loader process, which loads ranges of the resource that it was last ordered to load."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._orders = cast("asyncio.StreamWriter", process.stdin)
        self._answers = dict[int, asyncio.Future[RangeOutcome]]()
        self._number = 0
        self._receiving = asyncio.create_task(self._receive())
        self.order: LoadOrder | None = None

    @classmethod
    async def started(cls, settings: LoaderSettings) -> LoaderProcess:
        """Start a process. In a session of its own, it gets no signal of the terminal: its parent ends it."""
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        started = cls(process)
        await started._send(settings)
        return started

    @property
    def is_running(self) -> bool:
        return not self._receiving.done()

    async def begin(self, order: LoadOrder) -> None:
        self.order = order
        await self._send(order)

    async def load(self, lines: LineRange) -> RangeOutcome:
        """Load a range; raise LoaderExited, or what the process raised."""
        self._number += 1
        answer: asyncio.Future[RangeOutcome] = asyncio.get_running_loop().create_future()
        self._answers[self._number] = answer
        await self._send(RangeOrder(self._number, lines))
        if self._receiving.done():
            self._fail_all()
        return await answer

    async def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._receiving

    async def _send(self, message: object) -> None:
        # A process that has ended is noticed by the end of its answers.
        with suppress(ConnectionError):
            self._orders.write(packed(message))
            await self._orders.drain()

    async def _receive(self) -> None:
        stream = cast("asyncio.StreamReader", self._process.stdout)
        while (message := await received(stream)) is not None:
            answer = self._answers.pop(message.number)
            if answer.done():
                continue
            if isinstance(message, RangeFailure):
                answer.set_exception(message.error)
            else:
                answer.set_result(message)
        await self._process.wait()
        self._fail_all()

    def _fail_all(self) -> None:
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(LoaderExited(_description(self._process.returncode)))
        self._answers.clear()


def _description(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


# So that none waits for its next range.
_RANGES_AT_ONCE = 2
# Two that each process has, and one that is ready for it.
_RANGES_READY = 3
# A range during which so many processes ended is taken for the cause.
_MAX_EXITS = 5


class LoaderPool:
    """As many loader processes as given, as a context. `exits` says of those that ended by themselves with what."""

    def __init__(self, context: IndexerContext, processes: int) -> None:
        settings = LoaderSettings(context.connection, context.settings)
        self._context = context
        self._places = [_Place(settings) for _ in range(processes)]
        self._free = asyncio.Queue[_Place]()
        self.exits: list[str] = []

    async def __aenter__(self) -> Self:
        for place in self._places * _RANGES_AT_ONCE:
            self._free.put_nowait(place)
        return self

    async def __aexit__(self, *_details: object) -> None:
        await asyncio.gather(*(place.end() for place in self._places))

    @asynccontextmanager
    async def pieces(self, load: Load) -> AsyncIterator[Pieces]:
        """Open what remains; then report processes that ended, and wait until no request of them can arrive."""
        self.exits.clear()
        job, live, sender = load.candidate.job, load.candidate.progress.live, load.sender
        target = (sender.index, sender.opaque_id, sender.ranges)
        order = LoadOrder(job.resource, job.companies, live, job.built, *target)
        with self._ranges(load) as lines:
            ahead = _RANGES_READY * len(self._places)
            yield Pieces(lines.read, partial(self._load, order, load.sample), ahead)
        if self.exits:
            job.report.warnings.append(
                f"processes that loaded lines ended {len(self.exits)} times, the last one with {self.exits[-1]}; "
                "others have loaded these lines"
            )
            await wait_for_bulk_tasks(self._context.client, sender.opaque_id, self._context.settings.retry_seconds)

    @contextmanager
    def _ranges(self, load: Load) -> Iterator[FileRanges | LineBatches]:
        """Open the remaining lines: parts of a file, or lines that only one process can read."""
        job, settings = load.candidate.job, self._context.settings
        path = divisible_file(job.source, job.resource)
        if path is None:
            with load.remaining_lines() as remaining:
                yield LineBatches(remaining, settings)
            return
        job.report.bytes_total, job.dead_letters.stray = path.stat().st_size, 0
        with open_raw(path) as raw:
            size = range_size(job.report.bytes_total, len(self._places))
            yield FileRanges(path, raw, size, load.candidate.progress.line)

    async def _load(self, order: LoadOrder, sample: DocumentSample, lines: LineRange) -> LoadedLines:
        """Load a range, again if its process ends; raise what the load raises, or IndexerError after many exits."""
        for _ in range(_MAX_EXITS):
            place = await self._free.get()
            try:
                outcome = await place.load(order, lines)
            except LoaderExited as error:
                self.exits.append(str(error))
            else:
                sample.merge(outcome.sample)
                return outcome.loaded
            finally:
                self._free.put_nowait(place)
        raise IndexerError(
            f"{_MAX_EXITS} processes ended while they loaded {order.resource.alias} up to line {lines.last_line}, the "
            f"last one with {self.exits[-1]}: see what they printed, and whether this host has enough memory."
        )


class _Place:
    """One process at a time, started when it is needed."""

    def __init__(self, settings: LoaderSettings) -> None:
        self._settings = settings
        self._process: LoaderProcess | None = None
        self._starting = asyncio.Lock()

    async def load(self, order: LoadOrder, lines: LineRange) -> RangeOutcome:
        process = await self._ordered(order)
        return await process.load(lines)

    async def _ordered(self, order: LoadOrder) -> LoaderProcess:
        async with self._starting:
            if self._process is None or not self._process.is_running:
                self._process = await LoaderProcess.started(self._settings)
            if self._process.order is not order:
                await self._process.begin(order)
            return self._process

    async def end(self) -> None:
        if self._process is not None:
            await self._process.kill()
