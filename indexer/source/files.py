"""Files of lines, read within a bound: the rest of a longer line is skipped and never held in memory.

They are plain, gzip or zstd, which their first bytes tell, not their names.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from cluster.zstd import zstd
from indexer.errors import InvalidRecordError, SourceError
from indexer.settings import IndexerSettings
from indexer.source.lines import LineStream, RejectedLine, SourceLine
from mappings import Resource

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


_DIGEST_BYTES = 16


@contextmanager
def open_line_file(
    path: Path, max_bytes: int = IndexerSettings.max_record_bytes, resource: Resource | None = None
) -> Iterator[LineStream]:
    """Open a file of envelopes, plain or compressed, of one resource if that is given; longer lines are rejected."""
    with open_raw(path) as raw, decompressed(raw) as plain:
        lines = numbered_lines(path.name, plain.reader, max_bytes, resource)
        yield LineStream(lines, path.stat().st_size, plain.position)


def open_raw(path: Path) -> io.BufferedReader:
    """Open a file for reading its stored bytes; raise SourceError if that fails."""
    try:
        return path.open("rb")
    except OSError as error:
        raise SourceError(f"{path} cannot be opened: {error.strerror}.") from error


def numbered_lines(
    file: str, plain: io.BufferedReader, max_bytes: int, resource: Resource | None = None, *, before: int = 0
) -> Iterator[SourceLine | RejectedLine]:
    """Yield the lines that are not blank, numbered as in an editor after those `before`; longer ones are rejected."""
    number = before
    with report_damage(file, lambda: number):
        for number, data in enumerate(_bounded_lines(plain, max_bytes), before + 1):
            content = without_mark(file, number, data)
            item = checked_size(SourceLine(file, number, content), max_bytes, resource)
            if content and (not content.isspace() or isinstance(item, RejectedLine)):
                yield item


def file_identity(*paths: Path) -> str:
    """Return a hexadecimal digest of the paths, sizes and modification times of the files."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for path in paths:
        state = path.stat()
        digest.update(f"{path.resolve()}\n{state.st_size}\n{state.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def modified_microseconds(path: Path) -> int:
    """Return the modification time in microseconds since 1970."""
    return path.stat().st_mtime_ns // 1000


_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_LINE_END_BYTES = 2
_SKIPPED_BYTES = 1 << 16


def _bounded_lines(plain: io.BufferedReader, max_bytes: int) -> Iterator[bytes]:
    """Yield the lines of a stream; one that is longer than `max_bytes` and its line end is cut."""
    size = max_bytes + _LINE_END_BYTES
    while line := plain.readline(size):
        yield line
        if len(line) == size and not line.endswith(b"\n"):
            _skip_line(plain)


def _skip_line(plain: io.BufferedReader) -> None:
    while (part := plain.readline(_SKIPPED_BYTES)) and not part.endswith(b"\n"):
        pass


def without_mark(file: str, number: int, data: bytes) -> bytes:
    """Return a line without its byte order mark, which a file that was appended to another has too.

    Raises SourceError for a file in UTF-16.
    """
    if number == 1 and data.startswith(_UTF16_MARKS):
        raise SourceError(f"{file} is UTF-16: convert it to UTF-8.")
    return data.removeprefix(_UTF8_MARK)


def checked_size(line: SourceLine, max_bytes: int, resource: Resource | None = None) -> SourceLine | RejectedLine:
    """Return the line, rejected if it is too long; `resource` is its resource if that is known."""
    if len(line.data) <= max_bytes or len(line.data.removesuffix(b"\n").removesuffix(b"\r")) <= max_bytes:
        return line
    return RejectedLine(line, oversized(max_bytes), resource)


def oversized(max_bytes: int) -> InvalidRecordError:
    return InvalidRecordError(
        "", f"has more than {max_bytes:,} bytes: shorten the record, or raise BROKERAGE_MAX_RECORD_BYTES"
    )


_BUFFER_BYTES = 1 << 20
_READ_BYTES = 1 << 16
# The most that one step may decompress.
_STEP_BYTES = 1 << 20
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
# Parallel zstd compressors may start a file with a skippable frame, whose magic number is 0x184D2A50 to 0x184D2A5F.
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
# What reading a damaged file raises.
DAMAGE = (OSError, EOFError, zlib.error, zipfile.BadZipFile, zstd.ZstdError, UnicodeError)
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


@dataclass(frozen=True)
class DecompressedStream:
    """The plain bytes of a stream; `position` returns how many of its stored bytes have been read."""

    reader: io.BufferedReader[Any]
    position: Callable[[], int]


@contextmanager
def decompressed(stream: io.BufferedIOBase) -> Iterator[DecompressedStream]:
    """Decompress a stream, which the caller closes. Each line is readable as soon as its bytes arrive."""
    counted = _CountingStream(stream)
    # Not closed here: closing would block on a thread that waits for the next line. The reader holds no resources.
    yield DecompressedStream(io.BufferedReader(_LazyDecompressor(counted), _BUFFER_BYTES), lambda: counted.position)


@contextmanager
def report_damage(file: str, number: Callable[[], int]) -> Iterator[None]:
    """Raise SourceError for any read failure; `number` returns the last line that was read."""
    try:
        yield
    except DAMAGE as error:
        raise SourceError(f"{file} cannot be read after line {number()}: {error}.") from error


def is_compressed(raw: io.BufferedReader) -> bool:
    return _decompressor(raw.peek(len(_ZSTD))[: len(_ZSTD)]) is not None


def _decompressor(head: bytes) -> Callable[[], _Frame] | None:
    if head.startswith(_GZIP):
        return lambda: zlib.decompressobj(wbits=_GZIP_WINDOW)
    if head == _ZSTD or (head[1:] == _ZSTD_SKIPPABLE and head[0] >> 4 == 5):
        return _ZstdFrame
    return None


class _LazyDecompressor(io.RawIOBase):
    """The plain bytes. The format is detected at the first read, since the first bytes of a pipe may arrive late."""

    def __init__(self, counted: _CountingStream) -> None:
        super().__init__()
        self._counted = counted
        self._raw: _FrameReader | _CountingStream | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        if self._raw is None:
            decompressor = _decompressor(self._counted.head(len(_ZSTD)))
            self._raw = _FrameReader(self._counted, decompressor) if decompressor else self._counted
        return self._raw.readinto(buffer)


class _CountingStream(io.RawIOBase):
    """A stream that counts its bytes. A read blocks until at least one byte is available, and returns what there is."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        super().__init__()
        self._stream = stream
        self._head = b""
        self.position = 0

    def head(self, size: int) -> bytes:
        """Return the first bytes without consuming them."""
        while len(self._head) < size and (more := self._stream.read1(size - len(self._head))):
            self._head += more
        return self._head

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        if self._head:
            size = _fill(buffer, self._head)
            self._head = self._head[size:]
        else:
            size = self._stream.readinto1(buffer)
        self.position += size
        return size


class _ZstdFrame:
    """One zstd frame, which keeps by itself the input that it has not decompressed yet."""

    unconsumed_tail = b""

    def __init__(self) -> None:
        self._frame = zstd.ZstdDecompressor()

    @property
    def eof(self) -> bool:
        return self._frame.eof

    @property
    def unused_data(self) -> bytes:
        return self._frame.unused_data

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        return self._frame.decompress(data, max_length)


# One zstd frame or one gzip member.
_Frame: TypeAlias = "_ZstdFrame | zlib._Decompress"  # noqa: SLF001 - it has no other name


class _FrameReader(io.RawIOBase):
    """The plain bytes of consecutive frames or members; raises EOFError if the stream ends inside one."""

    def __init__(self, packed: io.RawIOBase, decompressor: Callable[[], _Frame]) -> None:
        super().__init__()
        self._packed = packed
        self._decompressor = decompressor
        self._frame: _Frame | None = None
        self._plain = memoryview(b"")
        self._is_full = False  # whether the last step stopped at its bound, so that more may follow without input

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        while not self._plain:
            packed = self._left_over()
            if not packed and not self._is_full:
                packed = self._packed.read(_READ_BYTES) or b""
            if not packed and not self._is_full:
                return self._end()
            if self._frame is None or self._frame.eof:
                self._frame = self._decompressor()
            plain = self._frame.decompress(packed, _STEP_BYTES)
            self._plain, self._is_full = memoryview(plain), len(plain) >= _STEP_BYTES and not self._frame.eof
        size = _fill(buffer, self._plain)
        self._plain = self._plain[size:]
        return size

    def _left_over(self) -> bytes:
        """Return the bytes that were read but not decompressed, of this frame or after its end."""
        if self._frame is None:
            return b""
        return self._frame.unused_data if self._frame.eof else self._frame.unconsumed_tail

    def _end(self) -> int:
        if self._frame is not None and not self._frame.eof:
            raise EOFError("it ends inside a compressed frame")
        return 0


class Beginning(io.RawIOBase):
    """The first bytes of a stream, up to a number of lines; `lines` counts those that were read."""

    def __init__(self, stream: io.BufferedReader, max_bytes: int, max_lines: int) -> None:
        super().__init__()
        self._stream, self._left, self._max_lines, self.lines = stream, max_bytes, max_lines, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        if self.lines >= self._max_lines:
            return 0
        data = self._stream.read1(min(self._left, len(memoryview(buffer))))
        self._left -= len(data)
        self.lines += data.count(b"\n")
        return _fill(buffer, data)


def _fill(buffer: WriteableBuffer, data: bytes | memoryview) -> int:
    """Copy as many bytes as the buffer holds; return their number."""
    target = memoryview(buffer)
    size = min(len(target), len(data))
    target[:size] = data[:size]
    return size
