"""The node class of the service: sends requests over connections that do not copy responses.

The client's nodes on aiohttp copy a response three times (decision 6). This class is for reads only: if a reused
connection turns out to be closed, the request is sent once more over a new one.
"""

import asyncio
import ssl
from typing import Any, cast

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

from cluster.http.node_connection import NodeConnection
from cluster.http.node_health import NodeHealth
from cluster.http.response_head import HttpProtocolError, ResponseHead
from cluster.http.response_parser import ResponseParser
from cluster.tls import TlsContext, describe_tls_error

# A connection that was idle for longer may have been dropped by a firewall without notice.
_KEEPALIVE_SECONDS = 15.0
# A host that is down drops packets silently: connecting would use up the timeout of the request.
_CONNECT_SECONDS = 2.0
# A node that cannot serve returns these quickly; being fast must not attract all requests to it.
_UNAVAILABLE_STATUSES = frozenset({502, 503, 504})


class ReadingNode(AiohttpHttpNode):
    """A node queried over `NodeConnection`s; bodies are bytearrays that belong to the caller."""

    def __init__(self, config: NodeConfig) -> None:
        """Configure the node; connections are opened on demand."""
        super().__init__(config)
        if config.ssl_assert_fingerprint:
            raise ValueError("Fingerprints are verified by the SSL context: see `cluster.tls`.")
        if config.http_compress:
            raise ValueError("Compressed responses are not supported.")
        self.health = NodeHealth(self.base_url, self._probe, self._close_idle)
        self._idle: list[NodeConnection] = []
        self._is_closed = False
        self._last_headers = HttpHeaders()
        self._slots = asyncio.Semaphore(config.connections_per_node)
        host = f"[{self.host}]" if ":" in self.host else self.host
        self._fixed_headers = {**self.headers, "host": f"{host}:{self.port}"}

    async def perform_request(  # type: ignore[override]
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: HttpHeaders | None = None,
        request_timeout: Any = DEFAULT,
    ) -> NodeApiResponse:
        """Return the complete response; raise the transport's ConnectionTimeout or ConnectionError.

        `request_timeout` is in seconds and includes waiting for a connection. A node that stops responding raises
        ConnectionError, not ConnectionTimeout.
        """
        seconds = self.config.request_timeout if request_timeout is DEFAULT else request_timeout
        self._last_headers = headers or HttpHeaders()
        request = self._encoded(method, target, body or b"", self._last_headers)
        started = asyncio.get_running_loop().time()
        limit = asyncio.timeout(seconds)
        self.health.request_started(limit)
        try:
            async with limit, self._slots:
                parser = await self._request(request, is_head=method == "HEAD")
        except (OSError, HttpProtocolError) as error:
            raise self._failure(error, limit) from None
        finally:
            self.health.in_flight.discard(limit)
        return self._response(parser, asyncio.get_running_loop().time() - started)

    def _failure(self, error: OSError | HttpProtocolError, limit: asyncio.Timeout) -> TransportError:
        if limit.expired():
            # NodeHealth has removed the requests that it aborted.
            if limit in self.health.in_flight:
                return ConnectionTimeout("Connection timed out", errors=(error,))
            return ConnectionError("The node does not respond.", errors=(error,))
        self.health.request_failed()
        if isinstance(error, ssl.SSLError):
            return TlsError(describe_tls_error(error, self._ssl_context, self.host) or str(error), errors=(error,))
        return ConnectionError(str(error) or type(error).__name__, errors=(error,))

    def _encoded(self, method: str, target: str, body: bytes, headers: HttpHeaders) -> bytes:
        sent = {**self._fixed_headers, **headers, "content-length": str(len(body))}
        lines = "\r\n".join(f"{name}: {value}" for name, value in sent.items())
        return f"{method} {self.path_prefix}{target} HTTP/1.1\r\n{lines}\r\n\r\n".encode("latin-1") + body

    async def _request(self, request: bytes, *, is_head: bool) -> ResponseParser:
        connection = self._idle_connection()
        if connection is not None:
            try:
                return await self._request_over(connection, request, is_head=is_head)
            except (OSError, HttpProtocolError):
                if not connection.was_stale:
                    raise
        return await self._request_over(await self._connect(), request, is_head=is_head)

    async def _request_over(self, connection: NodeConnection, request: bytes, *, is_head: bool) -> ResponseParser:
        parser = await connection.request(request, is_head=is_head)
        self._idle.append(connection)
        if self._is_closed:
            self._close_idle()
        return parser

    def _idle_connection(self) -> NodeConnection | None:
        """Return the most recently used idle connection; close those that are no longer usable."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable(_KEEPALIVE_SECONDS):
                return connection
            connection.close()
        return None

    async def _connect(self) -> NodeConnection:
        loop = asyncio.get_running_loop()
        limit = asyncio.timeout(_CONNECT_SECONDS)
        try:
            async with limit:
                if isinstance(self._ssl_context, TlsContext):
                    await self._ssl_context.resolve_fingerprint(self.host, self.port)
                _, connection = await loop.create_connection(
                    lambda: NodeConnection(self.health), self.host, self.port, ssl=self._ssl_context
                )
        except TimeoutError as error:
            raise ConnectionRefusedError("The host does not accept connections.") from error
        return connection

    async def _probe(self) -> None:
        """Send a request that Elasticsearch never queues, over a new connection, with the last headers."""
        connection = await self._connect()
        try:
            await connection.request(self._encoded("HEAD", "/", b"", self._last_headers), is_head=True)
        finally:
            connection.close()

    def _response(self, parser: ResponseParser, seconds: float) -> NodeApiResponse:
        head = cast("ResponseHead", parser.head)
        if head.status in _UNAVAILABLE_STATUSES:
            self.health.request_failed()
        else:
            self.health.request_succeeded()
        meta = ApiResponseMeta(head.status, "1.1", HttpHeaders(head.headers), seconds, self.config)
        return NodeApiResponse(meta, parser.body())  # type: ignore[arg-type]  # a bytes-like body

    async def close(self) -> None:  # type: ignore[override]
        """Stop probing and close all connections, busy ones once they have responded."""
        self._is_closed = True
        await self.health.close()
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()
