"""Streams of JSON lines, compressed while they are sent."""

import asyncio
import datetime as dt
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import cache, lru_cache
from typing import Protocol

import msgspec
from aiohttp import ClientConnectionResetError, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from isal import isal_zlib

from cluster.zstd import zstd
from mappings.fields import underscore
from mappings.history import Past, decode_past
from service.errors import ApiError
from service.feed.entries import Difference, DocumentHeader
from service.http.requests import ContentCoding
from service.http.responses import GZIP_LEVEL, GZIP_WINDOW_BITS, ZSTD_LEVEL, JsonBytes
from service.limits.admission import AdmissionSlot
from service.projection import Variant
from service.telemetry.observation import CURRENT_OBSERVATION

_HASH_MODULUS = 2**64
_EPOCH = dt.date(1970, 1, 1)
_MINUTES = [b"T%02d:%02d:" % divmod(minute, 60) for minute in range(24 * 60)]
_SECONDS = [b"%02d." % second for second in range(60)]
_MILLISECONDS = [b"%03dZ" % millisecond for millisecond in range(1000)]


class _ChangeLine(msgspec.Struct, gc=False, omit_defaults=True):
    resource: str | None = None
    company: str = ""
    id: str = ""
    # Milliseconds since 1970: the indexer's own numbers would show how much of other companies has changed.
    sequence: int = -1
    time: str = ""
    content: str = ""
    reason: str = ""


_encode = msgspec.json.Encoder().encode


def content_hex(content: int) -> str:
    """Return a content hash as 16 hexadecimal digits."""
    return f"{content % _HASH_MODULUS:016x}"


def iso_timestamp(clock: int) -> bytes:
    """Return milliseconds since 1970 as ISO 8601 in UTC; five times as fast as `datetime` formatting."""
    minutes, milliseconds = divmod(clock, 60_000)
    day, minute = divmod(minutes, 24 * 60)
    return _date(day) + _MINUTES[minute] + _SECONDS[milliseconds // 1000] + _MILLISECONDS[milliseconds % 1000]


@lru_cache(maxsize=4096)
def _date(day: int) -> bytes:
    """Return the date of a day since 1970."""
    return (_EPOCH + dt.timedelta(days=day)).isoformat().encode()


def encode_removal(resource: str, identifier: str, header: DocumentHeader, reason: str) -> bytes:
    """Return the encoded line of a record that leaves the copy."""
    return _encode(
        _ChangeLine(
            resource, header.company, identifier, header.clock, iso_timestamp(header.clock).decode(), reason=reason
        )
    )


def encode_records(
    headers: Sequence[DocumentHeader], records: Sequence[JsonBytes], variant: Variant, resource: str | None
) -> list[bytes]:
    return [
        b"".join((_line_prefix(header, resource), encode_exact(header.exact, variant), b',"record":', record, b"}"))
        for header, record in zip(headers, variant.encode(records), strict=True)
    ]


def encode_difference(header: DocumentHeader, difference: Difference, variant: Variant) -> bytes:
    """Return the members of a change that say what has changed, each after a comma."""
    past, first = decode_past(header.past), b""
    if difference.shows_first:
        first = b',"first_seen":"%b"' % iso_timestamp(past.first_seen if past else header.clock)
    if difference.is_new:
        return first
    members: dict[str, object] = {"changed": [group.name for group in difference.groups.values()]}
    if past and (previous := _previous(past, difference)):
        members["previous"] = (
            {underscore(name): value for name, value in previous.items()} if variant.underscored else previous
        )
    return b"," + _encode(members)[1:-1] + first


def _previous(past: Past, difference: Difference) -> dict[str, object]:
    """Return the values that the last change of the groups replaced."""
    return {
        group.remembered[place]: value
        for number, group in difference.groups.items()
        for place, value in past.before(number).items()
    }


def encode_exact(values: Mapping[str, float], variant: Variant) -> bytes:
    """Return the member `exact` of a line: numbers as the source has them that the record rounds; empty without any."""
    names = _exact_names(variant) if values else {}
    shown = {names[name]: value for name, value in values.items() if name in names}
    return b',"exact":' + _encode(shown) if shown else b""


@cache
def _exact_names(variant: Variant) -> Mapping[str, str]:
    """Return the spelling of the members that are shown exactly, without those that the key may not see."""
    fields = variant.resource.view(variant.view)
    shown = [field.name for field in fields if field.is_shown_exact and field.group not in variant.withheld]
    return {name: underscore(name) if variant.underscored else name for name in shown}


def _line_prefix(header: DocumentHeader, resource: str | None) -> bytes:
    time = iso_timestamp(header.clock).decode()
    return _encode(_ChangeLine(resource, header.company, header.id, header.clock, time, content_hex(header.content)))[
        :-1
    ]


NDJSON = "application/x-ndjson"
# More than a connection accepts before it waits for the client.
_PART_BYTES = 262_144
_log = logging.getLogger("service")


class _Compressor(Protocol):
    """Compresses a stream and flushes each chunk, so that it can be decompressed on arrival."""

    def compress(self, chunk: bytes) -> bytes: ...

    def finish(self) -> bytes: ...


class _IdentityCompressor:
    def compress(self, chunk: bytes) -> bytes:
        return chunk

    def finish(self) -> bytes:
        return b""


class _GzipCompressor:
    def __init__(self) -> None:
        self._stream = isal_zlib.compressobj(GZIP_LEVEL, isal_zlib.DEFLATED, GZIP_WINDOW_BITS)

    def compress(self, chunk: bytes) -> bytes:
        return self._stream.compress(chunk) + self._stream.flush(isal_zlib.Z_SYNC_FLUSH)

    def finish(self) -> bytes:
        return self._stream.flush()


class _ZstdCompressor:
    def __init__(self) -> None:
        self._stream = zstd.ZstdCompressor(level=ZSTD_LEVEL)

    def compress(self, chunk: bytes) -> bytes:
        return self._stream.compress(chunk, zstd.ZstdCompressor.FLUSH_BLOCK)

    def finish(self) -> bytes:
        return self._stream.flush()


_COMPRESSORS: dict[ContentCoding, Callable[[], _Compressor]] = {
    ContentCoding.GZIP: _GzipCompressor,
    ContentCoding.ZSTD: _ZstdCompressor,
    ContentCoding.IDENTITY: _IdentityCompressor,
}


async def _compress_lines(compressor: _Compressor, lines: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Compress each chunk in a thread while the next one is produced."""
    if isinstance(compressor, _IdentityCompressor):
        async for chunk in lines:
            yield chunk
        return
    pending = asyncio.create_task(asyncio.to_thread(compressor.compress, b""))
    async for chunk in lines:
        compressed = await pending
        pending = asyncio.create_task(asyncio.to_thread(compressor.compress, chunk))
        yield compressed
    yield await pending


class StreamPayload(Payload):
    """A streamed body of lines. It holds a slot until the last line is sent, or the connection is lost.

    Each chunk is written when the client has read the one before. `service.http.send_monitor` aborts the connection of
    a client that reads too slowly.
    """

    _value: AsyncGenerator[bytes]

    def __init__(self, first: bytes, lines: AsyncGenerator[bytes], coding: ContentCoding, slot: AdmissionSlot) -> None:
        """Send `first`, then `lines`, compressed with `coding`; release the slot at the end."""
        super().__init__(lines, content_type=NDJSON)
        self._first = first
        self._coding = coding
        self._slot = slot

    def decode(self, *_: str) -> str:
        """Raise TypeError: the lines are not known before they are sent."""
        raise TypeError("A stream has no text.")

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send the lines; abort the connection on failure, so that the client sees an incomplete body."""
        try:
            async with aclosing(self._value) as lines:
                await self._send(lines, writer)
        except ApiError as error:
            _log.warning("snapshot aborted before its last line: %s", error)
            raise ClientConnectionResetError("The snapshot ended early.") from None

    async def _send(self, lines: AsyncGenerator[bytes], writer: AbstractStreamWriter) -> None:
        compressor = _COMPRESSORS[self._coding]()
        await self._write_chunk(writer, compressor.compress(self._first))
        async for chunk in _compress_lines(compressor, lines):
            await self._write_chunk(writer, chunk)
        await self._write_chunk(writer, compressor.finish())

    async def _write_chunk(self, writer: AbstractStreamWriter, chunk: bytes) -> None:
        # In parts: a connection copies what it is given, and keeps it until the client has read it.
        for start in range(0, len(chunk), _PART_BYTES):
            part = chunk[start : start + _PART_BYTES]
            await writer.write(part)
            CURRENT_OBSERVATION.get().sent_bytes += len(part)

    async def close(self) -> None:
        """Release the slot, and close the generator of the lines that were not read."""
        self._slot.release()
        await super().close()
        await self._value.aclose()


class StreamedResponse(web.Response):
    """A response whose body is a stream, closed also if it is never sent."""

    def __init__(self, stream: Payload, headers: Mapping[str, str], status: int = 200) -> None:
        """Send `stream` as the body."""
        super().__init__(body=stream, headers=headers, status=status)
        self._stream = stream

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Send the headers; if the client has left, the body is closed."""
        try:
            return await super().prepare(request)
        except BaseException:
            await self._stream.close()
            raise

    async def write_eof(self, data: bytes = b"") -> None:
        """Send the body, then release its resources, which aiohttp does not do for HEAD."""
        try:
            await super().write_eof(data)
        finally:
            await self._stream.close()
