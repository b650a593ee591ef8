"""A connection to a node: one request at a time, with the response received into its final buffer."""

import asyncio
from typing import cast

from cluster.http.node_health import NodeHealth
from cluster.http.response_head import HttpProtocolError
from cluster.http.response_parser import MIN_BUFFER_BYTES, ResponseParser

# A response is often about as long as the last large one, since pages follow pages, with small responses in between.
# Never preallocate more than this on an estimate.
_MAX_PREALLOCATED_BYTES = 16_777_216


class NodeConnection(asyncio.BufferedProtocol):
    """A connection to a node: `request` once it is open, `close` when it is no longer needed."""

    def __init__(self, health: NodeHealth) -> None:
        """Any received byte counts as a sign of life in `health`."""
        self._health = health
        self._transport: asyncio.Transport | None = None
        self._parser: ResponseParser | None = None
        self._response_done: asyncio.Future[None] | None = None
        self._expected_bytes = 0
        self._last_used: float | None = None

    def is_usable(self, idle_seconds: float) -> bool:
        """Whether the connection is open and was used within the last `idle_seconds`."""
        if self._transport is None or self._transport.is_closing() or self._last_used is None:
            return False
        return asyncio.get_running_loop().time() - self._last_used < idle_seconds

    @property
    def was_stale(self) -> bool:
        """Whether the last request was sent over a reused connection and got no byte back."""
        return self._last_used is not None and (self._parser is None or not self._parser.has_begun)

    async def request(self, request: bytes, *, is_head: bool = False) -> ResponseParser:
        """Send a request and return the complete response; raise OSError or HttpProtocolError."""
        self._parser = parser = ResponseParser(self._expected_bytes, is_head_request=is_head)
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("The connection was closed.")
        self._response_done = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            await self._response_done
        except BaseException:
            # Even if the response is complete: a cancelled request does not return its connection.
            self.close()
            raise
        finally:
            self._response_done = None
        if not parser.keep_alive:
            self.close()
        self._parser = None  # an idle connection must not keep the response alive
        self._last_used = asyncio.get_running_loop().time()
        if parser.size > MIN_BUFFER_BYTES:
            self._expected_bytes = min(parser.size + parser.size // 8, _MAX_PREALLOCATED_BYTES)
        return parser

    def close(self) -> None:
        """Abort the connection, which makes Elasticsearch cancel the request."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the parser knows better
        """Return where to receive the next bytes."""
        if self._parser is None or self._parser.is_done:
            self._parser = ResponseParser()  # unsolicited bytes are discarded
        return self._parser.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Parse received bytes."""
        self._health.receive_count += 1
        if self._response_done is None or self._response_done.done() or self._parser is None:
            self.close()
            return
        try:
            self._parser.feed(nbytes)
        except HttpProtocolError as error:
            self._settle(error)
        else:
            if self._parser.is_done:
                self._settle(None)

    def eof_received(self) -> None:
        """Close on this side too."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail or complete the current request."""
        self._transport = None
        if self._response_done is None or self._parser is None:
            return
        try:
            self._parser.feed_eof()
        except HttpProtocolError as error:
            self._settle(exc or error)
        else:
            # A response that ends with the connection is complete only after a clean close.
            self._settle(exc)

    def _settle(self, error: Exception | None) -> None:
        if self._response_done is None or self._response_done.done():
            return
        if error is None:
            self._response_done.set_result(None)
        else:
            self._response_done.set_exception(error)
