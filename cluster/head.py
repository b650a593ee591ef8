"""The head of an HTTP/1.1 answer: status and headers, and what they say of the body (RFC 9112)."""

from __future__ import annotations

from dataclasses import dataclass

_FIRST_FINAL, _LAST = 200, 599
_NO_BODY = frozenset({204, 304})


class FramingError(Exception):
    """What came is no HTTP/1.1 answer, or ended before it was whole."""


@dataclass(frozen=True)
class Head:
    """Status and headers, their names in lower case."""

    is_current: bool  # HTTP/1.1, not 1.0
    status: int
    headers: dict[str, str]

    @property
    def keeps_open(self) -> bool:
        """Whether the connection may be used again."""
        named = self.headers.get("connection", "").lower()
        return "close" not in named and (self.is_current or "keep-alive" in named)

    @property
    def has_body(self) -> bool:
        """Whether a body follows, to a request that was not HEAD."""
        return self.status not in _NO_BODY

    @property
    def is_chunked(self) -> bool:
        """Whether the body comes in chunks; raise FramingError for a coding that was not asked for."""
        coding = self.headers.get("transfer-encoding")
        if coding is not None and coding.lower() != "chunked":
            raise FramingError(f"The transfer coding {coding[:20]!r} was not asked for.")
        return coding is not None

    @property
    def length(self) -> int | None:
        """The length of the body in bytes, None where it ends with the connection."""
        text = self.headers.get("content-length")
        return None if text is None else number(text.encode("latin-1"), 10)


def parse_head(text: bytes) -> Head:
    """Read a head without the empty line behind it; raise FramingError for what is none."""
    first, *lines = text.split(b"\r\n")
    version, _, rest = first.partition(b" ")
    if version not in {b"HTTP/1.1", b"HTTP/1.0"}:
        raise FramingError("What came is no answer in HTTP/1.1.")
    status = number(rest.partition(b" ")[0], 10)
    if not _FIRST_FINAL <= status <= _LAST:
        raise FramingError(f"Status {status} was not asked for.")
    headers: dict[str, str] = {}
    for line in lines:
        name, value = _header(line)
        # A length that is given twice is then no number.
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return Head(version == b"HTTP/1.1", status, headers)


def _header(line: bytes) -> tuple[str, str]:
    name, colon, value = line.decode("latin-1").partition(":")
    if not colon or not name or name != name.strip():
        raise FramingError("A header of the answer has no name.")
    return name.lower(), value.strip()


def number(digits: bytes, base: int) -> int:
    """Read a length or a status; raise FramingError for what is none."""
    # `int` alone would take signs, spaces, underscores and `0x`.
    if not digits.isalnum() or digits[1:2].lower() == b"x":
        raise FramingError(f"{digits[:20]!r} is no number.")
    try:
        return int(digits, base)
    except ValueError:
        raise FramingError(f"{digits[:20]!r} is no number.") from None
