"""One published file in a response: its headers, the bytes that are sent, and what the audit notes."""

import asyncio
import base64
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, cast

import msgspec
from aiohttp import ClientConnectionResetError
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_writer import StreamWriter
from aiohttp.payload import Payload

from mappings.resource import Resource
from service.exports.publications import MEDIA_TYPES, FileSlice, FoundFile, Publications, PublishedFile
from service.http.responses import OPERATION_HEADERS
from service.http.send_monitor import STALLED, SendLimits
from service.limits.admission import AdmissionSlot
from service.request_context import RequestContext
from service.telemetry.observation import CURRENT_OBSERVATION

# Operations on files also read a bearer token.
EXPORT_HEADERS = {**OPERATION_HEADERS, "Vary": "x-api-key, Authorization, Accept-Encoding"}


def entity_tag(file: PublishedFile) -> str:
    """Return the strong tag of a file: its SHA-256, so that all workers and hosts agree."""
    return f'"{file.sha256}"'


def validators(file: PublishedFile) -> dict[str, str]:
    """Return the headers of any response, whether it has bytes of the file or not."""
    digest = base64.b64encode(bytes.fromhex(file.sha256)).decode()
    return {
        **EXPORT_HEADERS,
        "ETag": entity_tag(file),
        "Accept-Ranges": "bytes",
        "Repr-Digest": f"sha-256=:{digest}:",
    }


def content_headers(file: PublishedFile, part: FileSlice) -> dict[str, str]:
    """Return the headers that describe the bytes of a response."""
    return {
        **part.headers,
        "Content-Type": MEDIA_TYPES[file.format],
        "Content-Disposition": f'attachment; filename="{file.name}"',
    }


# Bytes of one call: few threads change for many bytes, and a thread reads a cold disk for a moment only.
_CALL_BYTES = 1_048_576
# That the kernel takes ahead of a client: it sends them even if the key is revoked meanwhile.
_UNSENT_BYTES = 131_072
# Until the head of the response has left, which is the only thing that the transport writes.
_HEAD_SECONDS = 0.001


class FilePayload(Payload):
    """A part of an open file. It holds a slot until the last byte is sent, or the connection is lost.

    The rule for slow clients is that of other responses. No byte of the file is kept in this process, so there is no
    bound on unread ones. (`loop.sendfile` would do that, but uvloop has none.)
    """

    _value: IO[bytes]

    def __init__(self, file: IO[bytes], part: FileSlice, limits: SendLimits, slot: AdmissionSlot) -> None:
        """Send `part` of `file`; close it and release the slot at the end."""
        super().__init__(file, content_type="application/octet-stream")
        self._size = part.length
        self._first, self._limits, self._slot = part.first, limits, slot

    def decode(self, *_: str) -> str:
        """Raise TypeError: the bytes are never read."""
        raise TypeError("A file has no text.")

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send the part; abort the connection if the client is too slow or the file too short."""
        stream = cast("StreamWriter", writer)
        stream.send_headers()
        transport = stream.transport
        handle: socket.socket | None = None if transport is None else transport.get_extra_info("socket")
        if transport is None or handle is None or transport.is_closing():
            raise ClientConnectionResetError("The client has disconnected.")
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        # The event loop refuses to watch the descriptor of a transport.
        connection = os.dup(handle.fileno())
        try:
            async with asyncio.timeout(self._limits.stall_seconds):
                while transport.get_write_buffer_size():  # noqa: ASYNC110 - nothing reports that it is empty
                    await asyncio.sleep(_HEAD_SECONDS)
            await self._send(connection, transport)
        except TimeoutError:
            STALLED.inc()
            transport.abort()
            raise ClientConnectionResetError("The client reads too slowly.") from None
        except OSError as error:
            transport.abort()
            raise ClientConnectionResetError("The client has disconnected.") from error
        finally:
            os.close(connection)

    async def _send(self, connection: int, transport: asyncio.Transport) -> None:
        first, end = self._first, self._first + (self._size or 0)
        while first < end:
            count = min(end - first, _CALL_BYTES)
            async with asyncio.timeout(self._seconds(count)):
                sent = await self._send_some(connection, transport, first, count)
            first += sent
            CURRENT_OBSERVATION.get().sent_bytes += sent

    def _seconds(self, count: int) -> float:
        """Return how long a client may take for so many bytes."""
        return max(self._limits.stall_seconds, count / max(1, self._limits.least_bytes_per_second))

    async def _send_some(self, connection: int, transport: asyncio.Transport, first: int, count: int) -> int:
        """Send bytes, as many as the connection takes at once; wait until it takes some."""
        while not transport.is_closing():
            try:
                sent = await _in_thread(os.sendfile, connection, self._value.fileno(), first, count)
            except BlockingIOError:
                await _wait_writable(connection)
                continue
            if not sent:
                raise OSError("The file is shorter than its manifest says.")
            return sent
        raise ClientConnectionResetError("The client has disconnected.")

    async def close(self) -> None:
        self._slot.release()
        self._value.close()
        await super().close()


async def _in_thread(send: Callable[..., int], *arguments: int) -> int:
    """Call in a thread, which ends before this is cancelled: closed descriptors give their numbers to others."""
    sending = asyncio.create_task(asyncio.to_thread(send, *arguments))
    try:
        return await asyncio.shield(sending)
    finally:
        while not sending.done():
            # The client is too slow, and then the service ends: what is raised is the first of several cancellations.
            with suppress(asyncio.CancelledError):
                await asyncio.wait([sending])


async def _wait_writable(connection: int) -> None:
    loop = asyncio.get_running_loop()
    is_writable: asyncio.Future[Any] = loop.create_future()
    loop.add_writer(connection, _settle, is_writable)
    try:
        await is_writable
    finally:
        loop.remove_writer(connection)


def _settle(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_result(None)


# Noted at once; the event loop does other work in between.
_IDENTIFIERS = 2000


async def record_download(
    call: RequestContext, resource: Resource, publications: Publications, found: FoundFile, sequence: int
) -> None:
    """Record the identifiers in a file, if there is an audit; raise FileNotFoundError if they are gone.

    The file is at least as new as `sequence`.
    """
    if call.sent is None:
        return
    names = await publications.identifiers(found)
    mark = await call.services.indices[resource].mark.get()
    call.sent.searches(resource, None if mark is None else msgspec.structs.replace(mark, sequence=sequence))
    for start in range(0, len(names), _IDENTIFIERS):
        call.sent.names(resource, names[start : start + _IDENTIFIERS])
        await asyncio.sleep(0)
