"""A relay before the engine that keeps what passed: what the canned engine asked, and what it was answered."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit


class Relay:
    """Passes connections on untouched; can be away for a while."""

    def __init__(self, upstream: str) -> None:
        """Pass on to the server at a URL."""
        address = urlsplit(upstream)
        self._upstream = (address.hostname, address.port)
        self._server: asyncio.Server | None = None
        self.port = 0
        self.requests = bytearray()
        self.answers = bytearray()

    @property
    def url(self) -> str:
        """Where the relay listens."""
        return f"http://127.0.0.1:{self.port}"

    def asked(self, target: str = "") -> int:
        """Return how many requests passed, to a target that ends so."""
        return self.requests.count(f"{target} HTTP/1.1\r\n".encode())

    async def open(self) -> None:
        """Listen, on the same port as before if there was one."""
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening."""
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        engine_reader, engine_writer = await asyncio.open_connection(*self._upstream)
        back = asyncio.create_task(_copy(engine_reader, writer, self.answers))
        await _copy(reader, engine_writer, self.requests)
        engine_writer.close()
        await back
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray) -> None:
    while data := await reader.read(65_536):
        kept += data
        writer.write(data)
