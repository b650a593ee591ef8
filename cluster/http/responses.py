"""HTTP/1.1 responses (RFC 9112), received in place: the body ends up contiguous without being copied.

Elasticsearch sends large responses in chunks of a quarter of a megabyte. Each read ends a few bytes after the end of a
chunk, so closing the gap left by the framing between chunks moves those few bytes, not the chunk. The bytes of the body
reach the caller as they are.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import orjson
from elastic_transport import Serializer
from elasticsearch import JsonSerializer
from elasticsearch.serializer import DEFAULT_SERIALIZERS

_FIRST_FINAL, _LAST = 200, 599
_NO_BODY = frozenset({204, 304})


class HttpProtocolError(Exception):
    """The received bytes are not an HTTP/1.1 response, or an incomplete one."""


@dataclass(frozen=True)
class ResponseHead:
    """Status and headers; header names are in lower case."""

    is_http_1_1: bool  # HTTP/1.1, not 1.0
    status: int
    headers: dict[str, str]

    @property
    def keep_alive(self) -> bool:
        options = self.headers.get("connection", "").lower()
        return "close" not in options and (self.is_http_1_1 or "keep-alive" in options)

    @property
    def is_chunked(self) -> bool:
        """Whether the body is chunked; raise HttpProtocolError for any other transfer coding."""
        coding = self.headers.get("transfer-encoding")
        if coding is not None and coding.lower() != "chunked":
            raise HttpProtocolError(f"The transfer coding {coding[:20]!r} is not supported.")
        return coding is not None

    @property
    def content_length(self) -> int | None:
        """The length of the body in bytes; None if the header is absent."""
        text = self.headers.get("content-length")
        return None if text is None else parse_number(text.encode("latin-1"), 10)


def _parse_head(text: bytes) -> ResponseHead:
    """Parse a head without its final empty line; raise HttpProtocolError if it is not valid."""
    first, *lines = text.split(b"\r\n")
    version, _, rest = first.partition(b" ")
    if version not in {b"HTTP/1.1", b"HTTP/1.0"}:
        raise HttpProtocolError("The received bytes are not an HTTP/1.1 response.")
    status = parse_number(rest.partition(b" ")[0], 10)
    if not _FIRST_FINAL <= status <= _LAST:
        raise HttpProtocolError(f"Status {status} is not a final one.")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not name or name != name.strip():
            raise HttpProtocolError("A header of the response has no name.")
        name, value = name.lower(), value.strip()
        # A repeated content-length is no longer a number then, and fails.
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return ResponseHead(version == b"HTTP/1.1", status, headers)


def parse_number(digits: bytes, base: int) -> int:
    """Parse a length or a status; raise HttpProtocolError if it is not a number."""
    # `int` alone would accept signs, spaces, underscores and `0x`.
    if not digits.isalnum() or digits[1:2].lower() == b"x":
        raise HttpProtocolError(f"{digits[:20]!r} is not a number.")
    try:
        return int(digits, base)
    except ValueError:
        raise HttpProtocolError(f"{digits[:20]!r} is not a number.") from None


_MAX_LINE_BYTES = 65_536
# 1,000 records of half a megabyte. A larger response is an error, which must not lead to the allocation of that much
# memory, whether its length is announced or not.
MAX_RESPONSE_BYTES = 536_870_912
MIN_BUFFER_BYTES = 65_536
# The framing between two chunks: line ends and a length in hexadecimal digits.
_CHUNK_OVERHEAD_BYTES = 32
# After chunks shorter than this, a read may span chunks: moving few bytes is cheaper than a read for each chunk.
_SHORT_CHUNK_BYTES = 65_536


class _ParseState(Enum):
    HEAD = auto()
    SIZED = auto()  # a body of a known length
    CHUNK = auto()  # within a chunk
    CHUNK_END = auto()  # before the line end after a chunk
    CHUNK_LENGTH = auto()
    TRAILER = auto()  # after the last chunk
    UNTIL_CLOSE = auto()
    DONE = auto()


_BODY_STATES = frozenset({_ParseState.SIZED, _ParseState.CHUNK, _ParseState.UNTIL_CLOSE})


class ResponseParser:
    """The response to one request. Call `get_buffer` and `feed` alternately."""

    def __init__(self, expected: int = 0, *, is_head_request: bool = False) -> None:
        """`expected` is an estimate of the response size in bytes; if it is too low, growing the buffer copies.

        The memory is allocated when the response begins to arrive, not while Elasticsearch is working on it.
        """
        self.head: ResponseHead | None = None
        self.copied_bytes = 0  # bytes of the body that were moved
        self._buffer = bytearray(MIN_BUFFER_BYTES)
        self._expected = expected
        self._is_head_request = is_head_request
        self._state = _ParseState.HEAD
        self._filled = 0  # end of the received bytes
        self._read = 0  # end of the parsed bytes
        self._begin = 0  # start of the body
        self._end = 0  # end of the body so far
        self._remaining = 0  # bytes of the body or chunk not yet received
        self._is_long = False  # the current or last chunk, regardless of how much of it remains
        self._is_closed = False

    @property
    def is_done(self) -> bool:
        return self._state is _ParseState.DONE

    @property
    def has_begun(self) -> bool:
        return self._filled > 0

    @property
    def keep_alive(self) -> bool:
        """Whether the response is complete and the connection can be reused."""
        is_clean = self.is_done and not self._is_closed and self._read == self._filled
        return is_clean and self.head is not None and self.head.keep_alive

    @property
    def size(self) -> int:
        """The size of head and body so far, in bytes."""
        return self._end

    def body(self) -> bytearray:
        """Return the body of a complete response, cut out of the buffer in place. Call it once."""
        if len(self._buffer) // 2 <= self._end < len(self._buffer) * 3 // 4:
            # Cut in place, it would keep the memory of the whole buffer; only a shorter one returns the rest.
            return self._buffer[self._begin : self._end]
        try:
            del self._buffer[self._end :]
            del self._buffer[: self._begin]
        except BufferError:
            # A view is still exported: a traceback that is kept anywhere keeps the frame of the event loop, whose
            # local is the view that it received into.
            return self._buffer[self._begin : self._end]
        return self._buffer

    def get_buffer(self) -> memoryview:
        if self._state is _ParseState.SIZED:
            wanted = self._remaining
        else:
            # Between chunks `_remaining` is 0: the framing can arrive separately.
            wanted = self._remaining + _CHUNK_OVERHEAD_BYTES if self._is_long else MIN_BUFFER_BYTES
        if len(self._buffer) - self._filled < min(wanted, MIN_BUFFER_BYTES):
            self._grow(max(2 * len(self._buffer), self._filled + wanted, self._expected))
        return memoryview(self._buffer)[self._filled : self._filled + wanted]

    def _grow(self, capacity: int) -> None:
        larger = bytearray(capacity)
        larger[: self._filled] = self._buffer[: self._filled]
        self._buffer = larger

    def feed(self, count: int) -> bool:
        """Parse `count` bytes received into the last buffer; return whether the response is complete.

        Raises HttpProtocolError if they are not valid.
        """
        self._filled += count
        has_more = True
        while has_more and self._state is not _ParseState.DONE:
            if self._state in _BODY_STATES:
                has_more = self._consume_body()
            elif self._state is _ParseState.HEAD:
                has_more = self._consume_head()
            else:
                has_more = self._consume_line()
        if self._state is _ParseState.DONE:
            return True
        if self._state is not _ParseState.HEAD:
            self._close_gap()
        return False

    def feed_eof(self) -> None:
        """Handle the end of the connection; raise HttpProtocolError if the response is incomplete."""
        self._is_closed = True
        if self._state is _ParseState.UNTIL_CLOSE:
            self._state = _ParseState.DONE
        if not self.is_done:
            raise HttpProtocolError("The connection ended in the middle of a response.")

    def _consume_body(self) -> bool:
        """Append received bytes to the body; return whether there may be more to parse."""
        available = self._filled - self._read
        taken = available if self._state is _ParseState.UNTIL_CLOSE else min(available, self._remaining)
        self._require_room(taken)
        self._move(self._read, taken)
        self._read, self._end, self._remaining = self._read + taken, self._end + taken, self._remaining - taken
        if self._remaining or self._state is _ParseState.UNTIL_CLOSE:
            return False
        self._state = _ParseState.DONE if self._state is _ParseState.SIZED else _ParseState.CHUNK_END
        return True

    def _move(self, start: int, count: int) -> None:
        """Move bytes to the end of the body, unless they are there already."""
        if start != self._end and count:
            self._buffer[self._end : self._end + count] = self._buffer[start : start + count]
            self.copied_bytes += count

    def _close_gap(self) -> None:
        """Move unparsed bytes to the end of the body, so that the next ones are received in their final position."""
        count = self._filled - self._read
        self._move(self._read, count)
        self._read, self._filled = self._end, self._end + count

    def _consume_line(self) -> bool:
        end = self._buffer.find(b"\r\n", self._read, self._filled)
        if end < 0:
            self._require_line_end()
            return False
        line = bytes(self._buffer[self._read : end])
        self._read = end + 2
        if self._state is _ParseState.CHUNK_LENGTH:
            self._expect(parse_number(line.partition(b";")[0].strip(), 16))
            self._state = _ParseState.CHUNK if self._remaining else _ParseState.TRAILER
        elif self._state is _ParseState.TRAILER:
            self._state = _ParseState.TRAILER if line else _ParseState.DONE
        elif line:
            raise HttpProtocolError("A chunk is longer than announced.")
        else:
            self._state = _ParseState.CHUNK_LENGTH
        return True

    def _expect(self, count: int) -> None:
        self._require_room(count)
        if self._begin == self._end:
            # The body is still empty: it can begin here, and nothing has to be moved.
            self._begin = self._end = self._read
        self._remaining = count
        self._is_long = count >= _SHORT_CHUNK_BYTES

    def _require_room(self, count: int) -> None:
        if self._end + count > MAX_RESPONSE_BYTES:
            raise HttpProtocolError(f"The response is larger than {MAX_RESPONSE_BYTES // 2**20} MiB.")

    def _consume_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n", 0, self._filled)
        if end < 0:
            self._require_line_end()
            return False
        self.head = _parse_head(bytes(self._buffer[:end]))
        self._read = self._begin = self._end = end + 4
        self._state = self._state_after_head(self.head)
        return True

    def _state_after_head(self, head: ResponseHead) -> _ParseState:
        """Return the state after a head (RFC 9112, section 6.3)."""
        if self._is_head_request or head.status in _NO_BODY:
            return _ParseState.DONE
        if head.is_chunked:
            return _ParseState.CHUNK_LENGTH
        if head.content_length is None:
            return _ParseState.UNTIL_CLOSE
        self._expect(head.content_length)
        return _ParseState.SIZED if self._remaining else _ParseState.DONE

    def _require_line_end(self) -> None:
        if self._filled - self._read > _MAX_LINE_BYTES:
            raise HttpProtocolError("A line of the response is too long.")


# The client replaces `application/json` in requests with its own media type, but leaves another spelling alone, and
# media types are case-insensitive. Elasticsearch then responds with plain `application/json`, also for errors.
_RAW_REQUEST_TYPE = "application/JSON"
_RAW_RESPONSE_TYPE = "application/json"
_TYPED_TYPE = "application/vnd.elasticsearch+json"

# With JSON in both directions, Elasticsearch copies the stored source into the response without parsing it.
RAW_HEADERS = {"accept": _RAW_REQUEST_TYPE, "content-type": _RAW_REQUEST_TYPE}


class RawSerializer(JsonSerializer):
    """Returns responses as bytes, for callers that split them or decode them by type."""

    def loads(self, data: bytes) -> Any:
        return data

    def dumps(self, data: Any) -> bytes:
        return data if isinstance(data, bytes) else orjson.dumps(data)


def raw_serializers() -> dict[str, Serializer]:
    """Return the client's serializers by media type: raw for requests with `RAW_HEADERS`, parsing for typed calls.

    The type of typed calls is listed since the client would otherwise use the serializer of `application/json` for it.
    """
    raw = RawSerializer()
    return {_RAW_REQUEST_TYPE: raw, _RAW_RESPONSE_TYPE: raw, _TYPED_TYPE: DEFAULT_SERIALIZERS[_TYPED_TYPE]}
