"""Reading compressed streams: part after part, as the bytes come, and never past a cut file unnoticed."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import WriteableBuffer

_PACKED_BYTES = 1 << 16


class Decompressor(Protocol):
    """What decompresses one zstd frame or one gzip member."""

    @property
    def eof(self) -> bool:
        """Whether its end has been reached."""

    @property
    def unused_data(self) -> bytes:
        """What was given to it behind its end."""

    def decompress(self, data: bytes, /) -> bytes:
        """Return the plain bytes that are known so far."""


class Frames(io.RawIOBase):
    """The plain bytes of a compressed stream; raises EOFError where it ends inside a frame or member."""

    def __init__(self, packed: io.RawIOBase, decompressor: Callable[[], Decompressor]) -> None:
        """Read nothing yet. A read of `packed` returns what is there, it does not wait for more."""
        super().__init__()
        self._packed = packed
        self._decompressor = decompressor
        self._frame: Decompressor | None = None
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
                self._frame = self._decompressor()
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
            raise EOFError("it ends inside a compressed part")
        return 0
