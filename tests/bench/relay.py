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
        self._passing: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
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
        """Stop listening, and cut what is open: a connection left behind fails whichever test runs next."""
        assert self._server is not None
        self._server.close()
        for client in self._passing.values():
            client.close()
        await asyncio.gather(*self._passing)
        await self._server.wait_closed()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passing = asyncio.current_task()
        assert passing is not None
        self._passing[passing] = writer
        passing.add_done_callback(self._passing.pop)
        engine_reader, engine_writer = await asyncio.open_connection(*self._upstream)
        async with asyncio.TaskGroup() as ways:
            ways.create_task(_copy(engine_reader, writer, self.answers))
            ways.create_task(_copy(reader, engine_writer, self.requests))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray) -> None:
    try:
        while data := await reader.read(65_536):
            kept += data
            writer.write(data)
    finally:
        writer.close()
