"""A canned Elasticsearch: `python -m bench.replay --port P --upstream URL`.

What is asked for the first time is asked of the upstream, byte for byte as it came, and the answer is stored byte for
byte: status, headers and framing are the upstream's own. Elasticsearch 9.5.3 frames a search answer in chunks, one for
every 256 KiB and up to the end of the hit in which they are full (1.4 MB came in five of 262,157 to 271,271 bytes and a
rest), and a document or an error as one body with its Content-Length. Afterwards a request costs one look-up and one
write, so that what is measured is the program that asks.

Plain HTTP/1.1 with keep-alive. No pipelining; request bodies carry a Content-Length. Answers never grow old and are
kept in memory: ask for the same few pages, do not walk a feed (1.4 MB for every page of 200).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import uvloop

if TYPE_CHECKING:
    from typing import Self

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
# Elasticsearch chooses the type and the encoding of an answer by these.
_SHAPING = re.compile(rb"\r\n((?:accept|accept-encoding|content-type):[^\r]*)", re.IGNORECASE)
_NO_BODY = re.compile(rb"HTTP/1\.1 (?:204|304) ")
# Requests whose headers differ each time (a trace id) would fill the memory; 10,000 of 1 KB are 10 MB.
_MOST_EXACT = 10_000

_LENGTH_REQUIRED = b"HTTP/1.1 411 Length Required\r\ncontent-length: 0\r\n\r\n"
_AWAY = b"HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n\r\n%b"

Key = tuple[bytes, ...]


@dataclass(frozen=True)
class Request:
    """One whole request as it came; `head` is without the empty line that ends it."""

    head: bytes
    body: bytes

    @classmethod
    def cut(cls, received: bytes) -> Self | None:
        """Return the request that the bytes begin with, or None while a part of it is missing."""
        head, end, rest = received.partition(_END_OF_HEAD)
        length = _LENGTH.search(head)
        size = int(length[1]) if length else 0
        return cls(head, rest[:size]) if end and len(rest) >= size else None

    @property
    def key(self) -> Key:
        """What tells one question from another: method, target, body, and the headers that shape the answer."""
        line = self.head.partition(b"\r\n")[0]
        return (line, self.body, *sorted(header.lower() for header in _SHAPING.findall(self.head)))

    @property
    def encoded(self) -> bytes:
        """The request as it goes to the upstream."""
        return self.head + _END_OF_HEAD + self.body


class Replay:
    """The stored answers. `asked` counts the requests that the upstream was sent."""

    def __init__(self, upstream: str) -> None:
        """Ask the server at a URL, `http://host:port`, for what is not stored."""
        address = urlsplit(upstream)
        if address.scheme != "http" or address.hostname is None:
            raise ValueError(f"{upstream!r} is not an address of the form http://host:port.")
        self._host, self._port = address.hostname, address.port or 80
        self._answers: dict[Key, asyncio.Task[bytes]] = {}
        self.exact: dict[bytes, bytes] = {}
        self.asked = 0

    async def answer(self, request: Request) -> bytes:
        """Return the stored answer, or the upstream's; 502, not stored, when that is away."""
        key = request.key
        if key not in self._answers:
            self._answers[key] = asyncio.create_task(self._ask(request))
        try:
            # Several clients may wait for the same answer: one that leaves must not cancel it.
            answer = await asyncio.shield(self._answers[key])
        except (OSError, EOFError) as error:
            self._answers.pop(key, None)
            reason = f"{type(error).__name__}: {error}".encode()
            return _AWAY % (len(reason), reason)
        if len(self.exact) >= _MOST_EXACT:
            self.exact.clear()
        self.exact[request.encoded] = answer
        return answer

    async def _ask(self, request: Request) -> bytes:
        self.asked += 1
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(request.encoded)
            return await _whole_answer(reader, bodiless=request.head.startswith(b"HEAD "))
        finally:
            writer.close()


async def _whole_answer(reader: asyncio.StreamReader, *, bodiless: bool) -> bytes:
    """Read one answer with its framing."""
    head = await reader.readuntil(_END_OF_HEAD)
    if bodiless or _NO_BODY.match(head):
        return head
    if _CHUNKED.search(head):
        return b"".join([head, *await _chunks(reader)])
    length = _LENGTH.search(head)
    if length is None:
        raise EOFError("the upstream's answer has no length")
    return head + await reader.readexactly(int(length[1]))


async def _chunks(reader: asyncio.StreamReader) -> list[bytes]:
    parts: list[bytes] = []
    size = -1
    while size != 0:
        line = await reader.readuntil(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        parts += line, await reader.readexactly(size + len(b"\r\n"))
    return parts


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, replay: Replay) -> None:
        """Answer from the store."""
        self._replay = replay
        self._exact = replay.exact
        self._received = b""
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, which writes, although uvloop's is of no class of asyncio's."""
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer a request that was seen before at once, any other when it is whole."""
        answer = self._exact.get(data)
        if answer is not None and not self._received:
            self._transport.write(answer)
            return
        self._received += data
        request = Request.cut(self._received)
        if request is None:
            return
        self._received = b""
        if _CHUNKED.search(request.head):
            self._transport.write(_LENGTH_REQUIRED)
            self._transport.close()
            return
        self._task = asyncio.create_task(self._answer(request))

    async def _answer(self, request: Request) -> None:
        answer = await self._replay.answer(request)
        if not self._transport.is_closing():
            self._transport.write(answer)


async def listen(replay: Replay, port: int) -> asyncio.Server:
    """Return the listening server; port 0 takes any free one."""
    return await asyncio.get_running_loop().create_server(lambda: Connection(replay), "127.0.0.1", port)


async def _run(upstream: str, port: int) -> None:
    server = await listen(Replay(upstream), port)
    print(f"ready: http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def main() -> None:
    """Serve until a signal ends it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="0 takes any free port")
    parser.add_argument("--upstream", required=True, help="http://host:port of an Elasticsearch node")
    arguments = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(_run(arguments.upstream, arguments.port))


if __name__ == "__main__":
    main()
