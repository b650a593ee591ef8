"""Where the body of an HTTP/1.1 response ends: by its length, or by its chunks. Bodies are counted, kept on request."""

import re
from dataclasses import dataclass, field

Piece = bytes | memoryview

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
_LINE_END = b"\r\n"


class FramingError(ConnectionError):
    """This client cannot read the response; the message is a sentence."""


@dataclass
class Framing:
    """The body of one response; `length` counts its bytes, without the sizes of chunks."""

    keep: bool
    is_chunked: bool
    done: bool = False
    length: int = 0
    pieces: list[Piece] = field(default_factory=list)
    left: int = 0  # bytes of the body or of the present chunk that have not arrived
    _rest: bytes = b""  # the beginning of a line whose end has not arrived
    _is_ending: bool = False  # the last chunk has arrived, trailers and an empty line follow

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the connection, wherever they are cut."""
        data, self._rest = self._rest + data if self._rest else data, b""
        at = 0
        while at < len(data):
            if self.done:
                raise FramingError("More bytes came than the answer announced.")
            at = self._content(data, at) if self.left else self._line(data, at)

    def _content(self, data: bytes, at: int) -> int:
        end = min(len(data), at + self.left)
        self.left -= end - at
        self.length += end - at
        if self.keep:
            self.pieces.append(memoryview(data)[at:end])
        self.done = not self.left and not self.is_chunked
        return end

    def _line(self, data: bytes, at: int) -> int:
        end = data.find(_LINE_END, at)
        if end < 0:
            self._rest = data[at:]
            return len(data)
        if self._is_ending:
            self.done = end == at
        elif end > at:  # an empty line ends each chunk
            self._size(data[at:end])
        return end + 2

    def _size(self, line: bytes) -> None:
        try:
            self.left = int(line.partition(b";")[0], 16)
        except ValueError:
            raise FramingError(f"{line[:40]!r} is not the size of a chunk.") from None
        self._is_ending = not self.left


def framing(head: bytes, *, keep: bool) -> Framing:
    """Return how the body behind these headers ends; `head` goes up to and includes the empty line."""
    if (length := _LENGTH.search(head)) is not None:
        return Framing(keep, is_chunked=False, left=int(length[1]), done=not int(length[1]))
    if _CHUNKED.search(head) is not None:
        return Framing(keep, is_chunked=True)
    raise FramingError("The answer has neither a length nor chunks.")
