"""The nodes of the service: their choice and health, and connections that do not copy responses.

A frozen node still accepts connections and requests, but never responds, so health is tracked here: time is counted in
ticks of the event loop, and a pause of this process does not make nodes look silent. The client's own nodes on aiohttp
copy a response three times (decision 6). These are for reads only: if a reused connection turns out to be closed, the
request is sent once more over a new one.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from random import random
from typing import Any, cast

from elastic_transport import (
    AiohttpHttpNode,
    ApiResponseMeta,
    BaseNode,
    ConnectionError,  # noqa: A004 - the client's name for it
    ConnectionTimeout,
    HttpHeaders,
    NodeConfig,
    NodePool,
    TlsError,
    TransportError,
)
from elastic_transport._node import NodeApiResponse
from elastic_transport.client_utils import DEFAULT

from cluster.http.responses import MIN_BUFFER_BYTES, HttpProtocolError, ResponseHead, ResponseParser
from cluster.tls import TlsContext, describe_tls_error

_TICK_SECONDS = 0.25
# Silence before a probe, time limit of a probe, and rest of a failed node.
_PROBE_AFTER_TICKS = 4
# One probe may be lost with its connection.
_MAX_UNANSWERED_PROBES = 2

_log = logging.getLogger(__name__)


class NodeHealth:
    """The health of one node: its requests in flight, whether it responds, whether it failed recently.

    A single node is not monitored, since there is no alternative to it. A healthy node is monitored only while requests
    are in flight.
    """

    def __init__(self, name: str, probe: Callable[[], Awaitable[object]], close_idle: Callable[[], None]) -> None:
        """`probe` sends a trivial request over a new connection; `close_idle` closes idle connections."""
        self.others: Sequence[NodeHealth] = ()
        self.in_flight: set[asyncio.Timeout] = set()
        self.receive_count = 0  # reads from the node, responses to probes included
        self.is_healthy = True
        self._name = name
        self._probe = probe
        self._close_idle = close_idle
        self._is_trusted = True
        self._is_resting = False
        self._last_receive_count = 0  # at the last tick
        self._ticks_left = _PROBE_AFTER_TICKS
        self._unanswered = 0
        self._probe_task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_silent(self) -> bool:
        """Whether the last probes got no response."""
        return self._unanswered >= _MAX_UNANSWERED_PROBES

    @property
    def penalty(self) -> int:
        """Rank of the node, lower is better: 0 healthy, 1 on trial, 2 failed, 3 silent."""
        if not self.is_healthy:
            return 3 if self.is_silent else 2
        # A recovered node may fail again: try it with a single request.
        return 0 if self._is_trusted or not self.in_flight else 1

    @property
    def is_responsive(self) -> bool:
        return self.is_healthy and self._probe_task is None

    def request_started(self, limit: asyncio.Timeout) -> None:
        """Register a request; `limit` aborts it if the node becomes silent."""
        self.in_flight.add(limit)
        if self.others and self._timer is None:
            self._schedule_tick()

    def request_succeeded(self) -> None:
        self._is_trusted = True

    def request_failed(self) -> None:
        """Register a failure of the node, which rests for a second before it is probed."""
        if self.others and not self._is_resting:
            self.is_healthy = self._is_trusted = False
            self._is_resting, self._ticks_left = True, _PROBE_AFTER_TICKS
            if self._timer is None:
                self._schedule_tick()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        task, self._probe_task = self._probe_task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _schedule_tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._timer = None
        has_received = self.receive_count != self._last_receive_count
        self._last_receive_count = self.receive_count
        if self.is_healthy and not self.in_flight:
            self._reset()
            return
        if has_received and not self._is_resting:
            self._recover()
        else:
            self._ticks_left -= 1
            if self._ticks_left == 0:
                self._start_probe()
        if self.is_silent and any(other.is_responsive for other in self.others):
            self._abort_requests()
        self._schedule_tick()

    def _reset(self) -> None:
        self._ticks_left, self._unanswered = _PROBE_AFTER_TICKS, 0
        if self._probe_task is not None:
            self._probe_task.cancel()
            self._probe_task = None

    def _recover(self) -> None:
        if self.is_silent:
            _log.warning("Elasticsearch at %s responds again.", self._name)
        self.is_healthy = True
        self._reset()

    def _start_probe(self) -> None:
        """Probe the node; after two probes without a response it is silent, and is probed until it responds."""
        self._ticks_left, self._is_resting = _PROBE_AFTER_TICKS, False
        if self._probe_task is not None:
            self._probe_task.cancel()
            self._unanswered += 1
            if self._unanswered == _MAX_UNANSWERED_PROBES:
                _log.warning("Elasticsearch at %s does not respond.", self._name)
                self.is_healthy = self._is_trusted = False
        self._probe_task = asyncio.get_running_loop().create_task(self._run_probe())

    async def _run_probe(self) -> None:
        with suppress(OSError, HttpProtocolError):
            await self._probe()

    def _abort_requests(self) -> None:
        aborted = {limit for limit in self.in_flight if not limit.expired()}
        self.in_flight -= aborted
        for limit in aborted:
            limit.reschedule(0)
        self._close_idle()


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
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the parser knows better
        if self._parser is None or self._parser.is_done:
            self._parser = ResponseParser()  # unsolicited bytes are discarded
        return self._parser.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._health.receive_count += 1
        if self._response_done is None or self._response_done.done() or self._parser is None:
            self.close()
            return
        try:
            is_done = self._parser.feed(nbytes)
        except HttpProtocolError as error:
            self._settle(error)
        else:
            if is_done:
                self._settle(None)

    def eof_received(self) -> None:
        """Close on this side too."""

    def connection_lost(self, exc: Exception | None) -> None:
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


# A connection that was idle for longer may have been dropped by a firewall without notice.
_KEEPALIVE_SECONDS = 15.0
# A host that is down drops packets silently: connecting would use up the timeout of the request.
_CONNECT_SECONDS = 2.0
# A node that cannot serve returns these quickly; being fast must not attract all requests to it.
_UNAVAILABLE_STATUSES = frozenset({502, 503, 504})


class ReadingNode(AiohttpHttpNode):
    """A node queried over `NodeConnection`s; bodies are bytearrays that belong to the caller."""

    def __init__(self, config: NodeConfig) -> None:
        super().__init__(config)
        if config.ssl_assert_fingerprint:
            raise ValueError("Fingerprints are verified by the SSL context: see `cluster.tls`.")
        if config.http_compress:
            raise ValueError("Compressed responses are not supported.")
        self.health = NodeHealth(self.base_url, self.probe, self._close_idle)
        self._idle: list[NodeConnection] = []
        self._is_closed = False
        self._last_headers: Mapping[str, str] = {}
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
        """Return the response as `request` does, in the form of the transport."""
        seconds = self.config.request_timeout if request_timeout is DEFAULT else request_timeout
        started = asyncio.get_running_loop().time()
        head, content = await self.request(method, target, body or b"", headers or {}, seconds)
        seconds = asyncio.get_running_loop().time() - started
        meta = ApiResponseMeta(head.status, "1.1", HttpHeaders(head.headers), seconds, self.config)
        return NodeApiResponse(meta, content)

    async def request(
        self, method: str, target: str, body: bytes, headers: Mapping[str, str], seconds: float | None
    ) -> tuple[ResponseHead, bytes]:
        """Return the head and the body of the complete response, a bytearray that belongs to the caller.

        Raises the transport's ConnectionTimeout after `seconds`, which include waiting for a connection, and
        ConnectionError for a node that stops responding.
        """
        self._last_headers = headers
        request = self._encoded(method, target, body, headers)
        limit = asyncio.timeout(seconds)
        self.health.request_started(limit)
        try:
            async with limit, self._slots:
                parser = await self._request(request, is_head=method == "HEAD")
        except (OSError, HttpProtocolError) as error:
            raise self._failure(error, limit) from None
        finally:
            self.health.in_flight.discard(limit)
        head = cast("ResponseHead", parser.head)
        if head.status in _UNAVAILABLE_STATUSES:
            self.health.request_failed()
        else:
            self.health.request_succeeded()
        return head, cast("bytes", parser.body())

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

    def _encoded(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        sent = {**self._fixed_headers, **headers, "content-length": str(len(body))}
        lines = "\r\n".join([f"{name}: {value}" for name, value in sent.items()])
        return f"{method} {self.path_prefix}{target} HTTP/1.1\r\n{lines}\r\n\r\n".encode("latin-1") + body

    async def _request(self, request: bytes, *, is_head: bool) -> ResponseParser:
        connection, parser = self._idle_connection() or await self._connect(), None
        try:
            parser = await connection.request(request, is_head=is_head)
        except (OSError, HttpProtocolError):
            if not connection.was_stale:
                raise
        if parser is None:
            connection = await self._connect()
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

    async def probe(self) -> None:
        """Send a request that Elasticsearch never queues, over a new connection, with the last headers."""
        connection = await self._connect()
        try:
            await connection.request(self._encoded("HEAD", "/", b"", self._last_headers), is_head=True)
        finally:
            connection.close()

    async def close(self) -> None:  # type: ignore[override]
        """Stop probing and close all connections, busy ones once they have responded."""
        self._is_closed = True
        await self.health.close()
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()


class LeastRequestsPool(NodePool):
    """Selects a node for every request by the health that nodes track themselves.

    With round robin, a slow node would collect the requests of all connections. The client's own pool removes a node
    for any unsuccessful status, for longer with each request that was in flight, then returns it to all requests at
    once.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        """Take the options of the client's own pool; the nodes are ReadingNodes, and none is added later."""
        super().__init__(*args, **options)
        self._nodes = cast("list[ReadingNode]", self.all())
        for node in self._nodes:
            node.health.others = [other.health for other in self._nodes if other is not node]

    def get(self) -> ReadingNode:
        """Return the node for the next request; failed or silent ones only if there are no others."""
        return self._nodes[0] if len(self._nodes) == 1 else min(self._nodes, key=_rank)

    def mark_dead(self, node: BaseNode, _now: float | None = None) -> None:
        """Do nothing: nodes track their own health."""

    def mark_live(self, node: BaseNode) -> None:
        """Do nothing: nodes track their own health."""


def _rank(node: ReadingNode) -> tuple[int, int, float]:
    """Return the sort key of a node, with random tie-breaking; the lowest is selected."""
    return node.health.penalty, len(node.health.in_flight), random()  # noqa: S311 - not a secret


# The types of the errors of the node that coordinated the request.
NODE_LOSS_TYPES = frozenset(
    {
        "connect_transport_exception",
        "node_closed_exception",
        "node_disconnected_exception",
        "node_not_connected_exception",
    }
)
