"""A body that is made while it is sent, packed on the way; what breaks it off is seen by who reads it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Protocol, cast

import zstandard
from aiohttp import ClientConnectionResetError, web
from aiohttp.payload import Payload
from isal import isal_zlib

from service.encoding.compression import GZIP_LEVEL, GZIP_WINDOW_BITS, ZSTD_LEVEL
from service.encoding.negotiation import Coding
from service.errors import ApiError
from service.telemetry.observation import OBSERVED

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.http_writer import StreamWriter

    from service.admission import Lane

CONTENT_TYPE = "application/x-ndjson"
# A client that takes nothing for so long has gone, or will not be back before the state is.
_STALLED_SECONDS = 60

_log = logging.getLogger("service")


class _Packing(Protocol):
    """Packs a stream; what was given can be unpacked without what comes later."""

    def pack(self, some: bytes) -> bytes: ...

    def end(self) -> bytes: ...


class _Plain:
    def pack(self, some: bytes) -> bytes:
        return some

    def end(self) -> bytes:
        return b""


class _Gzip:
    def __init__(self) -> None:
        self._stream = isal_zlib.compressobj(GZIP_LEVEL, isal_zlib.DEFLATED, GZIP_WINDOW_BITS)

    def pack(self, some: bytes) -> bytes:
        return self._stream.compress(some) + self._stream.flush(isal_zlib.Z_SYNC_FLUSH)

    def end(self) -> bytes:
        return self._stream.flush()


class _Zstd:
    def __init__(self) -> None:
        self._stream = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compressobj()

    def pack(self, some: bytes) -> bytes:
        return self._stream.compress(some) + self._stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)

    def end(self) -> bytes:
        return self._stream.flush()


_PACKINGS: dict[Coding, Callable[[], _Packing]] = {
    Coding.GZIP: _Gzip,
    Coding.ZSTD: _Zstd,
    Coding.IDENTITY: _Plain,
}


async def _packed(packing: _Packing, lines: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Yield what comes, packed: in a thread, while what comes next is made."""
    if isinstance(packing, _Plain):
        async for some in lines:
            yield some
        return
    under_way = asyncio.create_task(asyncio.to_thread(packing.pack, b""))
    async for some in lines:
        before = await under_way
        under_way = asyncio.create_task(asyncio.to_thread(packing.pack, some))
        yield before
    yield await under_way


class Stream(Payload):
    """Lines as they come. It holds a place of its lane until the last is sent."""

    _value: AsyncGenerator[bytes]

    def __init__(self, first: bytes, lines: AsyncGenerator[bytes], coding: Coding, lane: Lane) -> None:
        """Send the first line, and then the others."""
        super().__init__(lines, content_type=CONTENT_TYPE)
        self._first = first
        self._coding = coding
        self._lane = lane

    def decode(self, *_: str) -> str:
        """Refuse: the lines are not known before they are sent."""
        raise TypeError("A stream has no text.")

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send the lines; where they end early, cut the connection, so that nobody takes them for all."""
        try:
            async with self._lane, aclosing(self._value) as lines:
                await self._send(lines, writer)
        except ApiError as error:
            _log.warning("a snapshot ended before its last line: %s", error)
            raise ClientConnectionResetError("The snapshot ended early.") from None
        except TimeoutError:
            # What waits in the connection's buffer would keep it open for ever.
            cast("StreamWriter", writer).transport.abort()  # type: ignore[union-attr]
            raise ClientConnectionResetError("The client takes nothing.") from None

    async def _send(self, lines: AsyncGenerator[bytes], writer: AbstractStreamWriter) -> None:
        packing = _PACKINGS[self._coding]()
        await self._hand_over(writer, packing.pack(self._first))
        async for packed in _packed(packing, lines):
            await self._hand_over(writer, packed)
        await self._hand_over(writer, packing.end())

    async def _hand_over(self, writer: AbstractStreamWriter, some: bytes) -> None:
        if some:
            async with asyncio.timeout(_STALLED_SECONDS):
                await writer.write(some)
            OBSERVED.get().sent_bytes += len(some)

    async def close(self) -> None:
        """Let go of lines that nobody has read."""
        await super().close()
        await self._value.aclose()


class StreamedResponse(web.Response):
    """An answer whose body is a stream."""

    def __init__(self, stream: Stream, headers: Mapping[str, str]) -> None:
        """Send the stream when it is asked for."""
        super().__init__(body=stream, headers=headers)
        self._stream = stream

    async def write_eof(self, data: bytes = b"") -> None:
        """Send it, and let go of what it holds, which aiohttp does not do for HEAD."""
        try:
            await super().write_eof(data)
        finally:
            await self._stream.close()
