"""A server that acknowledges bulk requests without storing anything: `python -m bench.canned_engine`.

It prints its address, and costs next to nothing, so that only those who write to it are measured. To other requests it
replies as Elasticsearch does to a write.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = (
    b"HTTP/1.1 200 OK\r\nX-Elastic-Product: Elasticsearch\r\nContent-Length: %d\r\n"
    b"Content-Type: application/vnd.elasticsearch+json;compatible-with=9\r\n\r\n"
)
_WRITTEN = b'{"_seq_no":0,"_primary_term":1,"result":"updated"}'


@cache
def _acknowledgement(documents: int) -> bytes:
    items = b",".join([b'{"index":{"status":201}}'] * documents)
    return b'{"errors":false,"items":[%b]}' % items


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0] or 0)
            lines = 0
            while length:
                part = await reader.read(min(length, 1 << 20))
                lines, length = lines + part.count(b"\n"), length - len(part)
            body = _acknowledgement(lines // 2) if b"/_bulk" in head.partition(b"\r\n")[0] else _WRITTEN
            writer.write(_HEAD % len(body) + body)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, limit=1 << 20)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


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
    asyncio.run(_main())
