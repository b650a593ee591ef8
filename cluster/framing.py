"""One HTTP/1.1 answer, taken apart where it was received: the body ends up in one piece without having been copied.

Elasticsearch sends large answers in chunks of a quarter of a megabyte. Bytes are asked for up to the end of a chunk and
a little more, so that what has to be moved over the framing between two chunks is a few bytes, not the chunk.
"""

from __future__ import annotations

from enum import Enum, auto

from cluster.head import FramingError, Head, number, parse_head

_LONGEST_LINE_BYTES = 65_536
# A length beyond this is a fault, which must not be answered by setting that much memory aside.
_LARGEST_ANSWER_BYTES = 2_147_483_647
LEAST_ROOM_BYTES = 65_536
# Room for the framing between two chunks: line ends and a length in hexadecimal digits.
_BETWEEN_BYTES = 32
# Behind chunks shorter than this more is read at once: moving a few bytes costs less than a call for each chunk.
_SHORT_CHUNK_BYTES = 65_536


class _Stage(Enum):
    HEAD = auto()
    SIZED = auto()  # a body of a known length
    CHUNK = auto()  # within a chunk
    CHUNK_END = auto()  # before the line end behind a chunk
    CHUNK_LENGTH = auto()
    TRAILER = auto()  # behind the last chunk
    UNTIL_CLOSE = auto()
    DONE = auto()


class Framing:
    """The answer to one request. `room` says where to receive, `received` takes note of what came, in turns."""

    def __init__(self, expected: int = 0, *, is_head_request: bool = False) -> None:
        """`expected` is a guess at the size of the answer in bytes; too low a guess costs some copying.

        As much is set aside when the answer begins to come, not while Elasticsearch works on it.
        """
        self.head: Head | None = None
        self.moved = 0  # bytes of the body that had to be moved
        self._buffer = bytearray(LEAST_ROOM_BYTES)
        self._expected = expected
        self._is_head_request = is_head_request
        self._stage = _Stage.HEAD
        self._filled = 0  # the end of what was received
        self._read = 0  # the end of what was understood
        self._begin = 0  # where the body begins
        self._end = 0  # where the body ends so far
        self._left = 0  # bytes of the body or of the chunk that are still to come
        self._is_long = False  # the chunk that comes or came last, however little is left of it
        self._is_closed = False

    @property
    def is_done(self) -> bool:
        """Whether the answer is whole."""
        return self._stage is _Stage.DONE

    @property
    def has_begun(self) -> bool:
        """Whether any byte came."""
        return self._filled > 0

    @property
    def keeps_open(self) -> bool:
        """Whether the answer is whole and leaves the connection to the next."""
        is_clean = self.is_done and not self._is_closed and self._read == self._filled
        return is_clean and self.head is not None and self.head.keeps_open

    @property
    def size(self) -> int:
        """The bytes of head and body so far."""
        return self._end

    def body(self) -> bytearray:
        """Return the body of a whole answer, by cutting off what stands round it. To be called once."""
        del self._buffer[self._end :]
        del self._buffer[: self._begin]
        return self._buffer

    def room(self) -> memoryview:
        """Return where the next bytes are to be received."""
        wanted = self._wanted()
        if len(self._buffer) - self._filled < min(wanted, LEAST_ROOM_BYTES):
            self._grow(max(2 * len(self._buffer), self._filled + wanted, self._expected))
        return memoryview(self._buffer)[self._filled : self._filled + wanted]

    def _grow(self, capacity: int) -> None:
        larger = bytearray(capacity)
        larger[: self._filled] = self._buffer[: self._filled]
        self._buffer = larger

    def _wanted(self) -> int:
        if self._stage is _Stage.SIZED:
            return self._left
        # `_left` is 0 between chunks, which may come apart from the chunks themselves.
        return self._left + _BETWEEN_BYTES if self._is_long else LEAST_ROOM_BYTES

    def received(self, count: int) -> None:
        """Take note of `count` bytes in the room that was given last; raise FramingError for what is no answer."""
        self._filled += count
        while self._step():
            pass
        if self._stage is not _Stage.HEAD and not self.is_done:
            self._close_gap()

    def closed(self) -> None:
        """Take note of the end of the connection; raise FramingError when the answer is not whole."""
        self._is_closed = True
        if self._stage is _Stage.UNTIL_CLOSE:
            self._stage = _Stage.DONE
        if not self.is_done:
            raise FramingError("The connection ended in the middle of an answer.")

    def _step(self) -> bool:
        """Understand a little more; return whether there may be more to understand."""
        if self._stage in {_Stage.SIZED, _Stage.CHUNK, _Stage.UNTIL_CLOSE}:
            return self._content()
        if self._stage is _Stage.HEAD:
            return self._take_head()
        return self._stage is not _Stage.DONE and self._take_line()

    def _content(self) -> bool:
        """Let the body end behind what came of it."""
        come = self._filled - self._read
        taken = come if self._stage is _Stage.UNTIL_CLOSE else min(come, self._left)
        self._move(self._read, taken)
        self._read, self._end, self._left = self._read + taken, self._end + taken, self._left - taken
        if self._left or self._stage is _Stage.UNTIL_CLOSE:
            return False
        self._stage = _Stage.DONE if self._stage is _Stage.SIZED else _Stage.CHUNK_END
        return not self.is_done

    def _move(self, start: int, count: int) -> None:
        """Move bytes to the end of the body, unless they stand there."""
        if start != self._end and count:
            self._buffer[self._end : self._end + count] = self._buffer[start : start + count]
            self.moved += count

    def _close_gap(self) -> None:
        """Move what is not understood yet to the end of the body, so that what comes next lies where it stays."""
        count = self._filled - self._read
        self._move(self._read, count)
        self._read, self._filled = self._end, self._end + count

    def _take_line(self) -> bool:
        """Read a line of the framing between chunks."""
        end = self._buffer.find(b"\r\n", self._read, self._filled)
        if end < 0:
            self._refuse_endless()
            return False
        line = bytes(self._buffer[self._read : end])
        self._read = end + 2
        if self._stage is _Stage.CHUNK_LENGTH:
            self._expect(number(line.partition(b";")[0].strip(), 16))
            self._stage = _Stage.CHUNK if self._left else _Stage.TRAILER
        elif self._stage is _Stage.TRAILER:
            self._stage = _Stage.TRAILER if line else _Stage.DONE
        elif line:
            raise FramingError("A chunk is longer than was said.")
        else:
            self._stage = _Stage.CHUNK_LENGTH
        return True

    def _expect(self, count: int) -> None:
        """Let `count` bytes of the body come next."""
        if self._end + count > _LARGEST_ANSWER_BYTES:
            raise FramingError("The answer is larger than any that is asked for.")
        if self._begin == self._end:
            # Nothing of the body is there yet: it may as well begin here, and nothing has to be moved.
            self._begin = self._end = self._read
        self._left = count
        self._is_long = count >= _SHORT_CHUNK_BYTES

    def _take_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n", 0, self._filled)
        if end < 0:
            self._refuse_endless()
            return False
        self.head = parse_head(bytes(self._buffer[:end]))
        self._read = self._begin = self._end = end + 4
        self._stage = self._behind(self.head)
        return True

    def _behind(self, head: Head) -> _Stage:
        """Return where a head leads to (RFC 9112, section 6.3)."""
        if self._is_head_request or not head.has_body:
            return _Stage.DONE
        if head.is_chunked:
            return _Stage.CHUNK_LENGTH
        if head.length is None:
            return _Stage.UNTIL_CLOSE
        self._expect(head.length)
        return _Stage.SIZED if self._left else _Stage.DONE

    def _refuse_endless(self) -> None:
        if self._filled - self._read > _LONGEST_LINE_BYTES:
            raise FramingError("A line of the answer has no end.")
