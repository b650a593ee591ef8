"""How the service reaches a node: the client's own node handling over connections that copy no answer.

The client's nodes on aiohttp copy an answer three times on its way in and spend more on a request than the rest of the
service together (docs/performance.md). This one is for reads: a request whose connection turns out to have been closed
before anything came back is sent once more.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, cast

from elastic_transport import (
    AiohttpHttpNode,
    ApiResponseMeta,
    ConnectionError,  # noqa: A004 - the client's name for it
    ConnectionTimeout,
    HttpHeaders,
    NodeConfig,
    TlsError,
    TransportError,
)
from elastic_transport._node import NodeApiResponse
from elastic_transport.client_utils import DEFAULT

from cluster.channel import Channel
from cluster.head import FramingError
from cluster.pulse import Pulse
from cluster.trust import Trust, told

if TYPE_CHECKING:
    from cluster.framing import Framing
    from cluster.head import Head


# A connection unused for longer may have been dropped on its way without a word.
_KEEPALIVE_SECONDS = 15.0
# A host that is gone swallows what is sent to it: connecting would take the whole time of the request.
_CONNECT_SECONDS = 2.0
# What a node says that cannot serve at present, and says quickly: it must not draw all requests to it.
_OUT_OF_SERVICE = frozenset({502, 503, 504})


class ReadingNode(AiohttpHttpNode):
    """A node that is asked over `Channel`s; bodies come as bytearrays that belong to whoever asked."""

    def __init__(self, config: NodeConfig) -> None:
        """Open no connection yet."""
        super().__init__(config)
        if config.ssl_assert_fingerprint:
            raise ValueError("Fingerprints are not checked here, but by the context: see `cluster.trust`.")
        if config.http_compress:
            raise ValueError("Answers are not unpacked here: do not ask for compressed ones.")
        self.pulse = Pulse(self.base_url, self._greet, self._drop)
        self._idle: list[Channel] = []
        self._is_closed = False
        self._headers_of_last = HttpHeaders()
        self._turns = asyncio.Semaphore(config.connections_per_node)
        host = f"[{self.host}]" if ":" in self.host else self.host
        self._fixed = {**self.headers, "host": f"{host}:{self.port}"}

    async def perform_request(  # type: ignore[override]
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: HttpHeaders | None = None,
        request_timeout: Any = DEFAULT,
    ) -> NodeApiResponse:
        """Return the whole answer; raise the transport's ConnectionTimeout or ConnectionError.

        `request_timeout` is in seconds and includes waiting for a connection. A node that falls silent is an error of
        the connection, not a timeout.
        """
        seconds = self.config.request_timeout if request_timeout is DEFAULT else request_timeout
        self._headers_of_last = headers or HttpHeaders()
        request = self._encoded(method, target, body or b"", self._headers_of_last)
        started = asyncio.get_running_loop().time()
        limit = asyncio.timeout(seconds)
        self.pulse.begun(limit)
        try:
            async with limit, self._turns:
                answer = await self._ask(request, is_head=method == "HEAD")
        except (OSError, FramingError) as error:
            raise self._failure(error, limit) from None
        finally:
            self.pulse.under_way.discard(limit)
        return self._response(answer, asyncio.get_running_loop().time() - started)

    def _failure(self, error: OSError | FramingError, limit: asyncio.Timeout) -> TransportError:
        if limit.expired():
            # The pulse no longer counts those whose limit it has cut short.
            if limit in self.pulse.under_way:
                return ConnectionTimeout("Connection timed out", errors=(error,))
            return ConnectionError("The node does not answer.", errors=(error,))
        self.pulse.failed()
        if isinstance(error, ssl.SSLError):
            return TlsError(told(error, self._ssl_context, self.host) or str(error), errors=(error,))
        return ConnectionError(str(error) or type(error).__name__, errors=(error,))

    def _encoded(self, method: str, target: str, body: bytes, headers: HttpHeaders) -> bytes:
        sent = {**self._fixed, **headers, "content-length": str(len(body))}
        lines = "\r\n".join(f"{name}: {value}" for name, value in sent.items())
        return f"{method} {self.path_prefix}{target} HTTP/1.1\r\n{lines}\r\n\r\n".encode("latin-1") + body

    async def _ask(self, request: bytes, *, is_head: bool) -> Framing:
        channel = self._waiting()
        if channel is not None:
            try:
                return await self._ask_over(channel, request, is_head=is_head)
            except (OSError, FramingError):
                if not channel.was_stale:
                    raise
        return await self._ask_over(await self._connect(), request, is_head=is_head)

    async def _ask_over(self, channel: Channel, request: bytes, *, is_head: bool) -> Framing:
        answer = await channel.ask(request, is_head=is_head)
        self._idle.append(channel)
        if self._is_closed:
            self._drop()
        return answer

    def _waiting(self) -> Channel | None:
        """Return a connection that waits for a request, the one used last; drop those that are of no more use."""
        while self._idle:
            channel = self._idle.pop()
            if channel.is_usable(_KEEPALIVE_SECONDS):
                return channel
            channel.close()
        return None

    async def _connect(self) -> Channel:
        loop = asyncio.get_running_loop()
        limit = asyncio.timeout(_CONNECT_SECONDS)
        try:
            async with limit:
                if isinstance(self._ssl_context, Trust):
                    await self._ssl_context.learn(self.host, self.port)
                _, channel = await loop.create_connection(
                    lambda: Channel(self.pulse), self.host, self.port, ssl=self._ssl_context
                )
        except TimeoutError as error:
            raise ConnectionRefusedError("The host does not take connections.") from error
        return channel

    async def _greet(self) -> None:
        """Ask what is answered without queueing, over a connection of its own, as whoever asked last."""
        channel = await self._connect()
        try:
            await channel.ask(self._encoded("HEAD", "/", b"", self._headers_of_last), is_head=True)
        finally:
            channel.close()

    def _response(self, answer: Framing, seconds: float) -> NodeApiResponse:
        head = cast("Head", answer.head)
        if head.status in _OUT_OF_SERVICE:
            self.pulse.failed()
        else:
            self.pulse.answered()
        meta = ApiResponseMeta(head.status, "1.1", HttpHeaders(head.headers), seconds, self.config)
        return NodeApiResponse(meta, answer.body())  # type: ignore[arg-type]  # bytes in all but name

    async def close(self) -> None:  # type: ignore[override]
        """Drop all connections, those that are asked over when they have answered; ask for no sign of life any more."""
        self._is_closed = True
        await self.pulse.close()
        self._drop()

    def _drop(self) -> None:
        while self._idle:
            self._idle.pop().close()
