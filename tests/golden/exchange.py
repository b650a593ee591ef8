"""One request to two services at once, and what they answer, as received."""

import gzip
import io
import socket
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse, IncompleteRead

import zstandard

from tests.golden.rows import Request

_HOST = "golden.example"  # absolute links name it, whatever the port
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Response:
    """A response: its status line, headers sorted by name, and the body, decoded."""

    status: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str:
        """Return a header, with commas if there are several, empty if it is absent."""
        return ", ".join(value for known, value in self.headers if known == name)

    @property
    def code(self) -> int:
        """The number of the status, 0 if the connection was closed without a response."""
        return int(self.status.split()[1]) if self.status else 0


Pair = tuple[Response, Response]


@dataclass(frozen=True)
class Services:
    """The ports of both services, and the texts of the keys."""

    ports: tuple[int, int]
    keys: dict[str, str]

    def send(self, request: Request, tags: tuple[str, str] = ("", "")) -> list[socket.socket]:
        """Send a request to both, each on a connection of its own; `tags` are the ETags that they gave."""
        connections = [socket.create_connection(("127.0.0.1", port), _PATIENCE_SECONDS) for port in self.ports]
        for connection, tag in zip(connections, tags, strict=True):
            connection.sendall(request.raw.encode() + b"\r\n\r\n" if request.raw else self._encoded(request, tag))
        return connections

    def ask(self, request: Request, tags: tuple[str, str] = ("", "")) -> Pair:
        """Return both responses."""
        first, second = (_receive(connection, request.method) for connection in self.send(request, tags))
        return first, second

    def _encoded(self, request: Request, tag: str) -> bytes:
        body, sent = request.body.encode(), dict(request.headers)
        headers = {"Host": _HOST, "x-api-key": self.keys.get(request.key), "Content-Length": len(body)}
        headers |= {"If-None-Match": tag if request.has_tag else ""}
        own = [(name, value) for name, value in headers.items() if value and name not in sent]
        lines = [f"{name}: {value}" for name, value in (*own, *request.headers)]
        return "\r\n".join([f"{request.method} {request.target} HTTP/1.1", *lines, "", ""]).encode() + body


def _receive(connection: socket.socket, method: str) -> Response:
    with connection:
        response = HTTPResponse(connection, method=method)
        try:
            response.begin()
            body = response.read()
        except IncompleteRead as cut:
            body = cut.partial + b" (cut)"
        except (HTTPException, OSError) as error:
            return Response("", (), type(error).__name__.encode())
        headers = sorted(response.getheaders(), key=lambda header: header[0])
        status = f"HTTP/{response.version / 10} {response.status} {response.reason}"
        return Response(status, tuple(headers), _decoded(body, response.getheader("Content-Encoding", "")))


def _decoded(body: bytes, coding: str) -> bytes:
    if body and coding == "gzip":
        return gzip.decompress(body)
    if body and coding == "zstd":
        return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(body), read_across_frames=True).read()
    return body
