"""An engine with ready-made answers in a thread of its own, and a client in another: what is left is the service."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from cluster.connection import ConnectionSettings
from service.app import create_app
from service.protocol import ServiceRunner
from service.settings import ServiceSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from types import FrameType

# As Elasticsearch cuts large answers.
_CHUNK_BYTES = 262_144
# What receives an answer is called as often as the network gives pieces.
_PER_PIECE = ("cluster/channel.py", "cluster/framing.py")


@dataclass
class Canned:
    """Answers by the start of a path, and what was asked."""

    answers: dict[str, bytes]
    asked: list[tuple[str, Any]] = field(default_factory=list)  # path, parsed body
    port: int = 0

    def answer(self, path: str, body: bytes) -> bytes:
        """Return the answer to a request."""
        self.asked.append((path, orjson.loads(body.partition(b"\n")[0] or b"null")))
        return next(answer for start, answer in self.answers.items() if path.startswith(start))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    canned: Canned

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        answer = memoryview(self.canned.answer(self.path, body))
        self.send_response(200)
        self.send_header("X-Elastic-Product", "Elasticsearch")
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for at in range(0, len(answer), _CHUNK_BYTES):
            piece = answer[at : at + _CHUNK_BYTES]
            self.wfile.write(b"%x\r\n" % len(piece))
            self.wfile.write(piece)
            self.wfile.write(b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    do_POST = do_GET  # noqa: N815 - the standard library's name

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def canned_engine(answers: dict[str, bytes]) -> Iterator[Canned]:
    """Serve the answers."""
    canned = Canned(answers)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"canned": canned}))
    canned.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield canned
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Client:
    """One connection to the service that keeps no body, only its size and its first bytes."""

    def __init__(self, port: int, key: str) -> None:
        """Connect."""
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._room = bytearray(4_000_000)
        self._key = key

    async def get(self, path: str) -> tuple[int, int]:
        """Return the status of an answer and the size of its body; received in a thread."""
        return await asyncio.get_running_loop().run_in_executor(None, self._get, path)

    def _get(self, path: str) -> tuple[int, int]:
        self._socket.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nx-api-key: {self._key}\r\n\r\n".encode())
        filled, end = 0, -1
        while end < 0:
            filled += self._socket.recv_into(memoryview(self._room)[filled:])
            end = self._room.find(b"\r\n\r\n", 0, filled)
        head = bytes(self._room[:end]).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while filled < end + 4 + length:
            filled += self._socket.recv_into(memoryview(self._room)[filled:])
        return int(head[9:12]), length

    def close(self) -> None:
        """Leave."""
        self._socket.close()


@asynccontextmanager
async def serving(engine: Canned, key: str) -> AsyncIterator[Client]:
    """Serve from the engine, and yield a client."""
    # Nothing is renewed while something is counted.
    settings = ServiceSettings(fresh_seconds=3600.0, stale_seconds=3600.0, deadline_seconds=60.0)
    connection = ConnectionSettings(url=(f"http://127.0.0.1:{engine.port}",))
    runner = ServiceRunner(create_app(settings, connection), settings)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    client = Client(runner.addresses[0][1], key)
    try:
        yield client
    finally:
        client.close()
        await runner.cleanup()


_HERE = str(Path(__file__).parent)


@contextmanager
def calls() -> Iterator[dict[str, int]]:
    """Count calls of Python functions in this thread by file."""
    found: dict[str, int] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        path = frame.f_code.co_filename
        is_library = "site-packages" not in path and path.startswith((sys.base_prefix, "<"))
        if event == "call" and not is_library and not path.startswith(_HERE) and not path.endswith(_PER_PIECE):
            found[path] = found.get(path, 0) + 1

    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
