"""The head of an HTTP/1.1 response: status, headers, and the framing of the body (RFC 9112)."""

from dataclasses import dataclass

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
        """Whether the connection can be reused."""
        options = self.headers.get("connection", "").lower()
        return "close" not in options and (self.is_http_1_1 or "keep-alive" in options)

    @property
    def has_body(self) -> bool:
        """Whether a body follows, unless the request was HEAD."""
        return self.status not in _NO_BODY

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


def parse_head(text: bytes) -> ResponseHead:
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
        name, value = _parse_header(line)
        # A repeated content-length is no longer a number then, and fails.
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return ResponseHead(version == b"HTTP/1.1", status, headers)


def _parse_header(line: bytes) -> tuple[str, str]:
    name, colon, value = line.decode("latin-1").partition(":")
    if not colon or not name or name != name.strip():
        raise HttpProtocolError("A header of the response has no name.")
    return name.lower(), value.strip()


def parse_number(digits: bytes, base: int) -> int:
    """Parse a length or a status; raise HttpProtocolError if it is not a number."""
    # `int` alone would accept signs, spaces, underscores and `0x`.
    if not digits.isalnum() or digits[1:2].lower() == b"x":
        raise HttpProtocolError(f"{digits[:20]!r} is not a number.")
    try:
        return int(digits, base)
    except ValueError:
        raise HttpProtocolError(f"{digits[:20]!r} is not a number.") from None
