"""Decompression of plain, gzip and zstd streams, detected by their first bytes, not by file name."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from cluster.zstd import zstd
from indexer.errors import SourceError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

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
    """Whether a file is compressed; it stays where it is."""
    return _decompressor(raw.peek(len(_ZSTD))[: len(_ZSTD)]) is not None


def _decompressor(head: bytes) -> Callable[[], _Decompressor] | None:
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


class _Decompressor(Protocol):
    """A decompressor of one zstd frame or one gzip member."""

    @property
    def eof(self) -> bool:
        """Whether the end of the frame has been reached."""

    @property
    def unused_data(self) -> bytes:
        """The input after the end of the frame."""

    @property
    def unconsumed_tail(self) -> bytes:
        """The input that was left because the output would have been too long."""

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        """Return the next plain bytes, about `max_length` at most."""


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
        """Return the next plain bytes."""
        return self._frame.decompress(data, max_length)


class _FrameReader(io.RawIOBase):
    """The plain bytes of consecutive frames or members; raises EOFError if the stream ends inside one."""

    def __init__(self, packed: io.RawIOBase, decompressor: Callable[[], _Decompressor]) -> None:
        super().__init__()
        self._packed = packed
        self._decompressor = decompressor
        self._frame: _Decompressor | None = None
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


def _fill(buffer: WriteableBuffer, data: bytes | memoryview) -> int:
    """Copy as many bytes as the buffer holds; return their number."""
    target = memoryview(buffer)
    size = min(len(target), len(data))
    target[:size] = data[:size]
    return size
