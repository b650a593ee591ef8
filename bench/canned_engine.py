"""A server that acknowledges bulk requests without storing anything: `python -m bench.canned_engine`.

It prints its address, and costs next to nothing, so that only those who write to it are measured: a thread for each
connection reads into one buffer and counts lines. To other requests it replies as Elasticsearch does to a write.
"""

import socketserver
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from http.client import parse_headers

_BUFFER_BYTES = 1 << 20
_HEAD = (
    b"HTTP/1.1 200 OK\r\nX-Elastic-Product: Elasticsearch\r\nContent-Length: %d\r\n"
    b"Content-Type: application/vnd.elasticsearch+json;compatible-with=9\r\n\r\n"
)
_WRITTEN = b'{"_seq_no":0,"_primary_term":1,"result":"updated"}'


@cache
def _acknowledgement(documents: int) -> bytes:
    items = b",".join([b'{"index":{"status":201}}'] * documents)
    return b'{"errors":false,"items":[%b]}' % items


class _Connection(socketserver.StreamRequestHandler):
    """Requests of one connection, one after the other."""

    def handle(self) -> None:
        """Reply until the client closes."""
        buffer = bytearray(_BUFFER_BYTES)
        with suppress(ConnectionError):
            while request := self.rfile.readline():
                lines = self._lines(buffer, int(parse_headers(self.rfile)["content-length"] or 0))
                body = _acknowledgement(lines // 2) if b"/_bulk" in request else _WRITTEN
                self.wfile.write(_HEAD % len(body) + body)

    def _lines(self, buffer: bytearray, length: int) -> int:
        """Read a body of `length` bytes and return its number of lines."""
        lines, view = 0, memoryview(buffer)
        while length and (received := self.rfile.readinto(view[:length])):
            lines, length = lines + buffer.count(b"\n", 0, received), length - received
        return lines


def _main() -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Connection) as server:
        server.daemon_threads = True
        print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
        server.serve_forever()


@contextmanager
def canned_engine() -> Iterator[str]:
    """Run the server as a process of its own, and yield its address."""
    command = [sys.executable, "-m", "bench.canned_engine"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own command
        try:
            yield (process.stdout.readline() if process.stdout else "").strip()
        finally:
            process.terminate()


if __name__ == "__main__":
    _main()
