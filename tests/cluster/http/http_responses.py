"""Encoded HTTP/1.1 answers in every framing, as servers may send them."""

from collections.abc import Iterable

OK = b"HTTP/1.1 200 OK\r\n"


def with_length(body: bytes, *headers: bytes, first: bytes = OK) -> bytes:
    lines = b"".join(header + b"\r\n" for header in headers)
    return b"%bContent-Length: %d\r\n%b\r\n%b" % (first, len(body), lines, body)


def chunked(pieces: Iterable[bytes], *headers: bytes, extension: bytes = b"", trailer: bytes = b"") -> bytes:
    """Return an answer in these chunks, each with the extension behind its length; `trailer` is whole lines."""
    lines = b"".join(header + b"\r\n" for header in headers)
    framed = b"".join(b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces if piece)
    return b"%bTransfer-Encoding: chunked\r\n%b\r\n%b0%b\r\n%b\r\n" % (OK, lines, framed, extension, trailer)


def until_close(body: bytes) -> bytes:
    """Return an answer that ends with its connection."""
    return OK + b"\r\n" + body


def split(body: bytes, size: int) -> list[bytes]:
    """Return the body in pieces of `size` bytes, the last of them shorter."""
    return [body[at : at + size] for at in range(0, len(body), size)]
