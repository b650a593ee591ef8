"""Where the body of an HTTP/1.1 answer ends: by its length, or by its chunks. Bodies are counted, kept only on wish."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

Piece = bytes | memoryview

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
_LINE_END = b"\r\n"


class FramingError(ConnectionError):
    """The answer is not one that this client reads; the message is a sentence."""


@dataclass
class Sized:
    """A body of a length that was announced, in bytes."""

    left: int
    keep: bool
    length: int = 0
    pieces: list[Piece] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether the whole body has come."""
        return self.left == 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the connection."""
        if len(data) > self.left:
            raise FramingError("More bytes came than the answer announced.")
        self.left -= len(data)
        self.length += len(data)
        if self.keep:
            self.pieces.append(data)


@dataclass
class Chunked:
    """A body in chunks; `length` counts what they hold, without their sizes."""

    keep: bool
    length: int = 0
    done: bool = False
    pieces: list[Piece] = field(default_factory=list)
    _left: int = 0  # bytes of the present chunk that are still to come, its line end included
    _rest: bytes = b""  # the beginning of a line whose end has not come
    _ending: bool = False  # the last chunk has come, trailers and an empty line follow

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the connection, wherever they are cut."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        at, size = 0, len(data)
        while at < size:
            if self.done:
                raise FramingError("More bytes came than the answer announced.")
            at = self._content(data, at) if self._left else self._line(data, at)

    def _content(self, data: bytes, at: int) -> int:
        end = min(len(data), at + self._left)
        # The last two of the bytes still to come are the chunk's line end.
        content_end = min(end, at + max(0, self._left - 2))
        self.length += content_end - at
        if self.keep and content_end > at:
            self.pieces.append(memoryview(data)[at:content_end])
        self._left -= end - at
        return end

    def _line(self, data: bytes, at: int) -> int:
        end = data.find(_LINE_END, at)
        if end < 0:
            self._rest = data[at:]
            return len(data)
        if self._ending:
            self.done = end == at
        else:
            self._size(data[at:end])
        return end + 2

    def _size(self, line: bytes) -> None:
        try:
            size = int(line.partition(b";")[0], 16)
        except ValueError:
            raise FramingError(f"{line[:40]!r} is not the size of a chunk.") from None
        self._ending = size == 0
        self._left = size + 2 if size else 0


Framing = Sized | Chunked


def framing(head: bytes, *, keep: bool) -> Framing:
    """Return how the body behind these headers ends; `head` goes up to and includes the empty line."""
    if (length := _LENGTH.search(head)) is not None:
        return Sized(int(length[1]), keep)
    if _CHUNKED.search(head) is not None:
        return Chunked(keep)
    raise FramingError("The answer has neither a length nor chunks.")
