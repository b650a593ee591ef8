"""Reading zstd: frame after frame, and never past a cut file unnoticed as the library's own reader goes."""

from __future__ import annotations

import io
from typing import IO, TYPE_CHECKING

import zstandard

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_PACKED_BYTES = 1 << 16


class Frames(io.RawIOBase):
    """The plain bytes of a zstd file; raises EOFError where it ends inside a frame."""

    def __init__(self, packed: IO[bytes]) -> None:
        """Read nothing yet."""
        super().__init__()
        self._packed = packed
        self._decompressor = zstandard.ZstdDecompressor()
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._plain = memoryview(b"")

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill the buffer with what is at hand; 0 is the end."""
        while not self._plain:
            packed = self._rest() or self._packed.read(_PACKED_BYTES)
            if not packed:
                return self._end()
            if self._frame is None or self._frame.eof:
                self._frame = self._decompressor.decompressobj()
            self._plain = memoryview(self._frame.decompress(packed))
        target = memoryview(buffer)
        size = min(len(target), len(self._plain))
        target[:size], self._plain = self._plain[:size], self._plain[size:]
        return size

    def _rest(self) -> bytes:
        """Return what stands behind the end of a frame in the bytes that were read with it."""
        return self._frame.unused_data if self._frame is not None and self._frame.eof else b""

    def _end(self) -> int:
        if self._frame is not None and not self._frame.eof:
            raise EOFError("it ends inside a compressed frame")
        return 0
