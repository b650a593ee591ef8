"""A body in parts: sent as they lie in the engine's answer, without being joined into one text first."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aiohttp import ClientConnectionResetError
from aiohttp.payload import Payload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.http_writer import StreamWriter

    from service.answer import Encoded

# Below this a join costs less than handing the parts over one by one.
_WORTH_PARTING_BYTES = 65_536


class Parts(Payload):
    """Buffers that follow each other in a response."""

    _value: Sequence[Encoded]

    def __init__(self, parts: Sequence[Encoded]) -> None:
        """Count the bytes: they are known before the first is sent, so that nothing has to be chunked."""
        super().__init__(parts, content_type="application/json")
        self._size: int = sum(map(len, parts))
        self.on_sent: Callable[[], None] | None = None

    @property
    def pieces(self) -> Sequence[Encoded]:
        """The buffers."""
        return self._value

    def joined(self) -> bytes:
        """Return the body in one piece."""
        return b"".join(self._value)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the body as text."""
        return self.joined().decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send everything, and wait until the connection has room again."""
        if self._size < _WORTH_PARTING_BYTES:
            await writer.write(self.joined())
        else:
            await self._write_parts(cast("StreamWriter", writer))
        if self.on_sent is not None:
            self.on_sent()

    async def _write_parts(self, stream: StreamWriter) -> None:
        stream.send_headers()
        if stream.transport is None or stream.transport.is_closing():
            raise ClientConnectionResetError("The client has left.")
        stream.transport.writelines(self._value)
        await stream.drain()

    async def close(self) -> None:
        """Let go of the buffers: aiohttp keeps a response until the next one of the same connection."""
        await super().close()
        self._value = ()
