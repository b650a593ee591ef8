"""The lines of a source in ranges that several processes load: parts of a plain file, or the lines themselves."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeAlias

from indexer.errors import SourceError
from indexer.settings import IndexerSettings
from indexer.source.files import is_compressed, numbered_lines, open_raw, report_damage
from indexer.source.lines import LineStream, RejectedLine, SourceLine
from mappings import Resource

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
