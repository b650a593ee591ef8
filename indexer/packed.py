"""Streams that are plain, gzip or zstd, told by their first bytes, whatever a file is called."""

from __future__ import annotations

import io
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import zstandard

from indexer.errors import SourceError
from indexer.frames import Frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _typeshed import WriteableBuffer

    from indexer.frames import Decompressor

_PLAIN_BYTES = 1 << 20
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
# A zstd file may begin with a frame of other data, as those of parallel compressors do: 0x184D2A50 to 0x184D2A5F.
_ZSTD_SKIPPED = b"\x2a\x4d\x18"
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


@dataclass(frozen=True)
class Unpacked:
    """The plain bytes of a stream, and how many of its own bytes have been read for them."""

    plain: io.BufferedReader[Any]
    position: Callable[[], int]


@contextmanager
def unpacked(stream: io.BufferedIOBase) -> Iterator[Unpacked]:
    """Decompress a stream, which stays the caller's to close. A line can be read as soon as it has come."""
    counted = _Counted(stream)
    # It is not closed here, which would wait for a thread that waits for the next line; it holds nothing of its own.
    yield Unpacked(io.BufferedReader(_Plain(counted), _PLAIN_BYTES), lambda: counted.position)


@contextmanager
def damage_told(file: str, number: Callable[[], int]) -> Iterator[None]:
    """Turn whatever breaks while a stream is read into a SourceError; `number` counts the lines read before."""
    try:
        yield
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise SourceError(f"{file} cannot be read behind line {number()}: {error}.") from error


def _decompressor(head: bytes) -> Callable[[], Decompressor] | None:
    if head.startswith(_GZIP):
        return lambda: zlib.decompressobj(wbits=_GZIP_WINDOW)
    if head == _ZSTD or (head[1:] == _ZSTD_SKIPPED and head[0] >> 4 == 5):
        return zstandard.ZstdDecompressor().decompressobj
    return None


class _Plain(io.RawIOBase):
    """The plain bytes. How the stream is packed is asked at the first read: its first bytes may be long in coming."""

    def __init__(self, counted: _Counted) -> None:
        super().__init__()
        self._counted = counted
        self._raw: Frames | _Counted | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        if self._raw is None:
            decompressor = _decompressor(self._counted.head(len(_ZSTD)))
            self._raw = Frames(self._counted, decompressor) if decompressor else self._counted
        return self._raw.readinto(buffer)


class _Counted(io.RawIOBase):
    """A stream that counts its bytes. A read waits for one byte at least, and for no more than are there."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        super().__init__()
        self._stream = stream
        self._head = b""
        self.position = 0

    def head(self, size: int) -> bytes:
        """Return the first bytes, which will be read again."""
        while len(self._head) < size and (more := self._stream.read1(size - len(self._head))):
            self._head += more
        return self._head

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        if self._head:
            target = memoryview(buffer)
            size = min(len(target), len(self._head))
            target[:size], self._head = self._head[:size], self._head[size:]
        else:
            size = self._stream.readinto1(buffer)
        self.position += size
        return size
