"""A response body in buffers, sent as slices of Elasticsearch's response without joining them first."""

from collections.abc import Callable, Sequence
from typing import cast

from aiohttp import ClientConnectionResetError
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_writer import StreamWriter
from aiohttp.payload import Payload

# Below this size a join costs less than writing the buffers one by one.
_MIN_SCATTERED_BYTES = 65_536

# One record as JSON text: bytes of its own, or a view into the response that it came in.
JsonBytes = bytes | memoryview


class BufferListPayload(Payload):
    """A body of consecutive buffers."""

    _value: Sequence[JsonBytes]

    def __init__(self, parts: Sequence[JsonBytes], records: int | None = None) -> None:
        """Add up the size, so that the response needs no chunked encoding.

        `records` is the number of records, None if it follows from the buffers (`service.http.responses`).
        """
        super().__init__(parts, content_type="application/json")
        self._size: int = sum(map(len, parts))
        self.records = records
        self.on_sent: Callable[[], None] | None = None

    @property
    def buffers(self) -> Sequence[JsonBytes]:
        """The buffers in order."""
        return self._value

    def join(self) -> bytes:
        """Return the body in one piece."""
        return b"".join(self._value)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the body as text."""
        return self.join().decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send the body, and wait until the connection accepts more."""
        if self._size < _MIN_SCATTERED_BYTES:
            await writer.write(self.join())
        else:
            await self._write_buffers(cast("StreamWriter", writer))
        if self.on_sent is not None:
            self.on_sent()

    async def _write_buffers(self, stream: StreamWriter) -> None:
        stream.send_headers()
        if stream.transport is None or stream.transport.is_closing():
            raise ClientConnectionResetError("The client has disconnected.")
        stream.transport.writelines(self._value)
        await stream.drain()

    async def close(self) -> None:
        """Release the buffers: aiohttp holds a response until the next one on the same connection."""
        await super().close()
        self._value = ()
