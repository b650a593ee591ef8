"""One connection to a node: one request at a time, its answer received where it stays."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from cluster.framing import LEAST_ROOM_BYTES, Framing
from cluster.head import FramingError

if TYPE_CHECKING:
    from cluster.pulse import Pulse

# An answer is often about as long as the one before: pages follow pages, whatever small answers, for which nothing is
# set aside, lie between them. More than this is not set aside on a guess.
_LARGEST_GUESS_BYTES = 16_777_216


class Channel(asyncio.BufferedProtocol):
    """A connection; `ask` once it is made, `close` when it is no longer wanted."""

    def __init__(self, pulse: Pulse) -> None:
        """Wait for the connection to be made; whatever comes is a sign of life of the node."""
        self._pulse = pulse
        self._transport: asyncio.Transport | None = None
        self._framing: Framing | None = None
        self._answered: asyncio.Future[None] | None = None
        self._guess = 0
        self._last_used: float | None = None

    def is_usable(self, idle_seconds: float) -> bool:
        """Whether the connection is open and was used within the last seconds."""
        if self._transport is None or self._transport.is_closing() or self._last_used is None:
            return False
        return asyncio.get_running_loop().time() - self._last_used < idle_seconds

    @property
    def was_stale(self) -> bool:
        """Whether the last request found a connection that had served before and brought nothing at all."""
        return self._last_used is not None and (self._framing is None or not self._framing.has_begun)

    async def ask(self, request: bytes, *, is_head: bool = False) -> Framing:
        """Send a request and return its whole answer; raise OSError or FramingError when there is none."""
        self._framing = framing = Framing(self._guess, is_head_request=is_head)
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("The connection was closed.")
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            await self._answered
        except BaseException:
            # Even when the answer is whole: who is cancelled does not give the connection back.
            self.close()
            raise
        finally:
            self._answered = None
        if not framing.keeps_open:
            self.close()
        self._framing = None  # a connection that waits must not hold on to the answer
        self._last_used = asyncio.get_running_loop().time()
        if framing.size > LEAST_ROOM_BYTES:
            self._guess = min(framing.size + framing.size // 8, _LARGEST_GUESS_BYTES)
        return framing

    def close(self) -> None:
        """Drop the connection at once: Elasticsearch then gives up what it was asked."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the framing knows better
        """Return where to receive."""
        if self._framing is None or self._framing.is_done:
            self._framing = Framing()  # what comes unasked is looked at by nobody
        return self._framing.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Understand what was received."""
        self._pulse.heard += 1
        if self._answered is None or self._answered.done() or self._framing is None:
            self.close()
            return
        try:
            self._framing.received(nbytes)
        except FramingError as error:
            self._settle(error)
        else:
            if self._framing.is_done:
                self._settle(None)

    def eof_received(self) -> None:
        """Close on this side too."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell who waits for an answer."""
        self._transport = None
        if self._answered is None or self._framing is None:
            return
        try:
            self._framing.closed()
        except FramingError as error:
            self._settle(exc or error)
        else:
            # An answer that ends with the connection is whole only when that ended in order.
            self._settle(exc)

    def _settle(self, error: Exception | None) -> None:
        if self._answered is None or self._answered.done():
            return
        if error is None:
            self._answered.set_result(None)
        else:
            self._answered.set_exception(error)
