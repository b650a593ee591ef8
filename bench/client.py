"""A minimal HTTP/1.1 client for all arms, which never parses or decompresses responses."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

Piece = bytes | memoryview

_HEAD_END = b"\r\n\r\n"
_LINE_END = b"\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
_OK = 200


class UnexpectedStatus(Exception):
    """The answer's status is not 200; the message holds the beginning of its body."""


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


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: its head as it came, the bytes of its body, and the body itself where it was kept."""

    head: bytes
    length: int
    pieces: Sequence[Piece]

    @property
    def status(self) -> int:
        return int(self.head[9:12])

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    def header(self, name: str) -> str | None:
        found = re.search(rb"\r\n" + name.encode() + rb":[ \t]*([^\r]*)", self.head, re.IGNORECASE)
        return None if found is None else found[1].decode("latin-1")


class Connection(asyncio.Protocol):
    """One connection that is kept alive; one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Answer] | None = None
        self._keep = False
        self._head = b""
        self._framing: Framing | None = None

    @property
    def is_open(self) -> bool:
        """Whether another request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes, *, keep: bool = False) -> Answer:
        """Send a whole request and return its answer, whatever the status; `keep` keeps the body.

        Raises ConnectionError where the connection ends before the answer does.
        """
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("The connection is closed.")
        self._waiter = asyncio.get_running_loop().create_future()
        self._keep, self._head, self._framing = keep, b"", None
        self._transport.write(request)
        try:
            return await self._waiter
        except asyncio.CancelledError:
            # A late response must not be taken for that of the next request.
            self.close()
            raise

    async def fetch(self, request: bytes, *, keep: bool = False) -> Answer:
        """Do as `ask`, and raise UnexpectedStatus for any status but 200."""
        answer = await self.ask(request, keep=keep)
        if not answer.head.startswith((b"HTTP/1.1 200", b"HTTP/1.0 200")):
            raise UnexpectedStatus(f"status {answer.status}: {answer.body[:300].decode(errors='replace')}")
        return answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take bytes; the answer is whole when its framing says so."""
        if self._waiter is None or self._waiter.done():
            self.close()
            return
        try:
            self._take(data)
        except FramingError as error:
            self._waiter.set_exception(error)
            self.close()

    def _take(self, data: bytes) -> None:
        if self._framing is None:
            data = self._begin(data)
        if self._framing is None or self._waiter is None:
            return
        if data:
            self._framing.feed(data)
        if self._framing.done:
            self._waiter.set_result(Answer(self._head, self._framing.length, self._framing.pieces))

    def _begin(self, data: bytes) -> bytes:
        """Gather the head; return what came behind it."""
        self._head += data
        end = self._head.find(_HEAD_END)
        if end < 0:
            return b""
        rest = self._head[end + 4 :]
        self._head = self._head[: end + 4]
        self._framing = framing(self._head, keep=self._keep or int(self._head[9:12]) != _OK)
        return rest

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the request in flight."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ConnectionResetError(f"The connection was cut within an answer: {error}."))


class Pool:
    """Connections to several servers, kept for the next measurement."""

    def __init__(self) -> None:
        self._kept: dict[str, list[Connection]] = {}

    async def take(self, server: str, count: int) -> list[Connection]:
        """Return `count` open connections to a server, `http://host:port`."""
        kept = [connection for connection in self._kept.get(server, []) if connection.is_open]
        while len(kept) < count:
            kept.append(await _connect(server))
        self._kept[server] = kept
        return kept[:count]

    def close(self) -> None:
        for connections in self._kept.values():
            for connection in connections:
                connection.close()
        self._kept.clear()


async def _connect(server: str) -> Connection:
    parts = urlsplit(server)
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, parts.hostname or "", parts.port or 80)
    return connection


def get(server: str, target: str, headers: Mapping[str, str] | None = None) -> bytes:
    """Return the bytes of a GET request; responses are uncompressed unless the headers allow it."""
    return _request("GET", server, target, headers or {}) + b"\r\n"


def post(server: str, target: str, body: bytes) -> bytes:
    """Return the bytes of a POST request with a JSON body."""
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    return _request("POST", server, target, headers) + b"\r\n" + body


def _request(method: str, server: str, target: str, headers: Mapping[str, str]) -> bytes:
    sent = {"Host": urlsplit(server).netloc, "Accept-Encoding": "identity", **headers}
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
    return ("\r\n".join(lines) + "\r\n").encode()
