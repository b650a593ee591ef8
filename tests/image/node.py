"""The program of the node's image: the embedded node, reachable from other containers.

The embedded node has no route for `GET /`, by which clients of the official image see that it has started.
"""

import asyncio
from pathlib import Path
from signal import SIGTERM

from embedded import VERSION, EmbeddedCluster, NodeOptions

_DATA = Path("/usr/share/elasticsearch/data/node")
_PORT, _INNER_PORT = 9200, 9199
_ROOT = b"GET / HTTP/1.1\r\n"
_BODY = b'{"version":{"number":"%s"},"tagline":"You Know, for Search"}' % VERSION.encode()
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"


async def _connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        first = await reader.readline()
        if first == _ROOT:
            writer.write(_HEAD % len(_BODY) + _BODY)
            await writer.drain()
        else:
            await _forward(first, reader, writer)
    except ConnectionError:
        pass
    finally:
        writer.close()


async def _forward(first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", _INNER_PORT)
    inner_writer.write(first)
    await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    finally:
        target.close()


async def _serve() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(SIGTERM, stop.set)
    server = await asyncio.start_server(_connected, "0.0.0.0", _PORT)  # noqa: S104 - in a container
    await stop.wait()
    # `async with server` would wait for clients to disconnect.
    server.close()


def main() -> None:
    """Run the node until SIGTERM."""
    with EmbeddedCluster(NodeOptions(port=_INNER_PORT, data=_DATA)):
        asyncio.run(_serve())


if __name__ == "__main__":
    main()
