"""The client of Elasticsearch: nodes, failover to others, and requests that are repeated while the cluster is away.

The client's own retries are switched off, as they repeat everything, and without a pause. A node that is restarted must
not end a load, though, so what is harmless to repeat is sent to another node. A single node has nothing to fail over
to. The service uses nodes of its own (`cluster.http.nodes`).

What may arrive twice is sent by a `Cluster`. Its repeats are spaced by exponential backoff with full jitter, and end
after a number of seconds.
"""

import asyncio
import logging
import random
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Self, TypeVar

import orjson
from aiohttp import ClientConnectorError
from elastic_transport import AiohttpHttpNode, AsyncTransport, HttpHeaders, TlsError, TransportApiResponse
from elastic_transport._node import NodeApiResponse
from elastic_transport.client_utils import DEFAULT
from elasticsearch import (
    ApiError,
    AsyncElasticsearch,
    ConnectionError,  # noqa: A004 - the client's name for it
    ConnectionTimeout,
    TransportError,
)

from cluster.http.responses import RAW_HEADERS
from cluster.index_state import write_block
from cluster.tls import TlsContext, describe_tls_error

Response = TypeVar("Response")

# A host that is down drops packets silently.
_HANDSHAKE_SECONDS = 10.0


class NotSentError(ConnectionError):
    """A node accepted no connection, so that it has not seen the request."""


class TypedNode(AiohttpHttpNode):
    """A node for typed calls that resolves the configured fingerprint before its first request."""

    _is_closed = False

    async def close(self) -> None:  # type: ignore[override]
        """Close the connections, for good: the client's own node would open others for a later request."""
        self._is_closed = True
        await super().close()

    async def perform_request(  # type: ignore[override]
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: HttpHeaders | None = None,
        request_timeout: Any = DEFAULT,
    ) -> NodeApiResponse:
        """Return the complete response; raise the transport's errors, with a remedy in those of TLS."""
        if self._is_closed:
            raise RuntimeError("The client is closed.")
        await self._resolve_fingerprint()
        try:
            return await super().perform_request(method, target, body, headers, request_timeout)
        except TlsError as error:
            raise self._tls_error(error, error.errors) from None
        except ConnectionError as error:
            for cause in error.errors:
                if isinstance(cause, ClientConnectorError):
                    raise self._not_sent_error(cause, error.errors) from None
            raise

    async def _resolve_fingerprint(self) -> None:
        if not isinstance(self._ssl_context, TlsContext):
            return
        try:
            async with asyncio.timeout(_HANDSHAKE_SECONDS):
                await self._ssl_context.resolve_fingerprint(self.host, self.port)
        except ssl.SSLError as error:
            raise self._tls_error(error, (error,)) from None
        except TimeoutError as error:
            raise ConnectionTimeout("The host does not accept connections.", errors=(error,)) from None
        except OSError as error:
            raise ConnectionError(str(error), errors=(error,)) from None

    def _not_sent_error(self, cause: ClientConnectorError, causes: tuple[Exception, ...]) -> NotSentError:
        # The text of aiohttp mentions ssl, whatever the scheme.
        reason = cause.os_error.strerror or cause.os_error
        return NotSentError(f"{self.host}:{self.port} accepts no connection ({reason})", errors=causes)

    def _tls_error(self, error: Exception, causes: tuple[Exception, ...]) -> TlsError:
        sentences = (describe_tls_error(_innermost(cause), self._ssl_context, self.host) for cause in causes)
        return TlsError(next(filter(None, sentences), str(error)), errors=causes)


def _innermost(error: Exception) -> Exception:
    """Return the error of OpenSSL, which aiohttp wraps."""
    nested = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
    return nested if isinstance(nested, ssl.SSLError) else error


_READS = ("/_search", "/_mget")
# Statuses while the shards of a node that is gone become available on others, and the pauses: 8 s altogether.
_PASSING = frozenset({502, 503})
_PAUSES_SECONDS = (0.25, 0.5, 1.0, 2.0, 4.0)


class FailoverTransport(AsyncTransport):
    """Sends a request to one node after the other while they refuse connections, or break them during a read.

    A read that needs what a lost node had is repeated, too, for some seconds.
    """

    async def perform_request(self, method: str, target: str, **options: Any) -> TransportApiResponse:  # type: ignore[override]
        """Return the response; raise the transport's errors."""
        response = await self._fail_over(method, target, **options)
        if len(self.node_pool) > 1 and _is_read(method, target):
            for pause in _PAUSES_SECONDS:
                if response.meta.status not in _PASSING:
                    break
                await asyncio.sleep(pause)
                response = await self._fail_over(method, target, **options)
        return response

    async def _fail_over(self, method: str, target: str, **options: Any) -> TransportApiResponse:
        """Send a request, at most once to each node: the pool avoids one that has failed."""
        for _ in range(len(self.node_pool) - 1):
            try:
                return await super().perform_request(method, target, **options)
            except ConnectionError as error:
                if isinstance(error, TlsError) or not (isinstance(error, NotSentError) or _is_read(method, target)):
                    raise
        return await super().perform_request(method, target, **options)


def _is_read(method: str, target: str) -> bool:
    return method in {"GET", "HEAD"} or target.partition("?")[0].endswith(_READS)


# Transient statuses, of a whole request or of one document.
RETRYABLE_STATUSES = frozenset({429, 502, 503, 504})
_TOO_MANY = 429
_INITIAL_SECONDS = 0.5
_MAX_SECONDS = 60.0
# Waits that are not worth a warning, together one or two seconds.
_SILENT_WAITS = 3
# Between two warnings of a process, however many operations wait.
_WARNING_SECONDS = 60.0
_random = random.SystemRandom()
_log = logging.getLogger("indexer")


class _Warnings:
    """Says that a process waits for Elasticsearch, and why: otherwise minutes would pass in silence."""

    def __init__(self) -> None:
        self._said_at = float("-inf")

    def say(self, error: Exception, seconds: float) -> None:
        if time.monotonic() - self._said_at >= _WARNING_SECONDS:
            self._said_at = time.monotonic()
            reason = failure_sentence(error) if isinstance(error, ApiError | TransportError) else error
            _log.warning("%s Trying again for up to %.0f s.", reason, seconds)


_warnings = _Warnings()


class Backoff:
    """The waits of one operation; the last ends at most `seconds` after the first began."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waits = 0
        self._end: float | None = None

    async def wait(self, error: Exception) -> bool:
        """Wait before the next attempt after an error; return False at once when the time is up."""
        now = time.monotonic()
        self._end = now + self._seconds if self._end is None else self._end
        if now >= self._end:
            return False
        if self._waits >= _SILENT_WAITS:
            _warnings.say(error, self._end - now)
        longest = min(_MAX_SECONDS, _INITIAL_SECONDS * 2**self._waits, self._end - now)
        self._waits += 1
        await asyncio.sleep(_random.uniform(0, longest))
        return True


async def retry(
    work: Callable[[], Awaitable[Response]], seconds: float, is_final: Callable[[ApiError], bool] | None = None
) -> Response:
    """Call an idempotent operation, retrying for up to `seconds` while Elasticsearch is unreachable or overloaded.

    An error for which `is_final` is true is raised at once.
    """
    backoff = Backoff(seconds)
    while True:
        try:
            return await work()
        except (ConnectionError, ConnectionTimeout) as error:
            if not await backoff.wait(error):
                raise
        except ApiError as error:
            is_lasting = error.meta.status not in RETRYABLE_STATUSES or is_write_block(error.body)
            is_lasting |= is_final is not None and is_final(error)
            if is_lasting or not await backoff.wait(error):
                raise


def is_memory_shortage(error: ApiError) -> bool:
    """Whether a circuit breaker rejected a request, which a smaller one may pass."""
    body = error.body if isinstance(error.body, bytes) else str(error.body).encode()
    return error.meta.status == _TOO_MANY and b"circuit_breaking_exception" in body


_LONG_SECONDS = 24 * 3600


class Cluster(AsyncElasticsearch):
    """A client that repeats every request for up to `retry_seconds`: only for what may arrive twice."""

    retry_seconds = 0.0

    @classmethod
    def over(cls, client: AsyncElasticsearch, retry_seconds: float) -> Self:
        cluster = cls(_transport=client.transport)
        # What `options` of the client passes on to a view of itself.
        cluster._headers, cluster._request_timeout = client._headers, client._request_timeout  # noqa: SLF001
        cluster.retry_seconds = retry_seconds
        return cluster

    def options(self, **options: Any) -> Self:
        view = super().options(**options)
        view.retry_seconds = self.retry_seconds
        return view

    @cached_property
    def patient(self) -> Self:
        """The same, for a request that may take hours, as the first refresh of a large index or a merge."""
        return self.options(request_timeout=_LONG_SECONDS)

    async def perform_request(self, method: str, path: str, **request: Any) -> Any:
        """Send a request, again while Elasticsearch is unreachable or overloaded."""
        return await retry(partial(super().perform_request, method, path, **request), self.retry_seconds)

    async def read_raw(
        self, method: str, target: str, body: bytes | None = None, is_final: Callable[[ApiError], bool] | None = None
    ) -> bytes:
        """Return the bytes of a response; an error for which `is_final` is true is raised at once."""
        send = partial(super().perform_request, method, target, headers=RAW_HEADERS, body=body)
        return bytes((await retry(send, self.retry_seconds, is_final)).body)

    async def search_completely(self, index: str | Sequence[str], **body: Any) -> dict[str, Any]:
        """Return the response of all shards, waiting while one of them is not available."""
        return dict(await self.search(index=index, allow_partial_search_results=False, **body))

    async def count_completely(self, index: str, query: Mapping[str, Any]) -> int:
        """Return how many documents match; `_count` itself cannot be kept from leaving out a shard."""
        exact = {"size": 0, "track_total_hits": True, "filter_path": "hits.total.value"}
        found = await self.search_completely(index, query=query, **exact)
        return int(found["hits"]["total"]["value"])


async def gather_or_cancel(*coroutines: Coroutine[Any, Any, Response]) -> list[Response]:
    """Run coroutines concurrently; if one fails, cancel the others and raise its error."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def failure_sentence(error: TransportError | ApiError) -> str:
    """Return what an exception of the client means, for an operator."""
    if isinstance(error, TransportError):
        cause = str(error.message).rstrip(".")
        return f"Elasticsearch cannot be reached: {cause}. Check ELASTICSEARCH_URL."
    return f"Elasticsearch returned {error.meta.status}: {error_reason(error.body)}."


def is_write_block(body: object) -> bool:
    """Whether an error response reports a write block, as of a full disk, which waiting does not remove."""
    return bool(write_block(error_body(body)))


def error_reason(body: object) -> str:
    """Return the most specific text of an error response: its reason, followed by the reason of its cause."""
    error = error_body(body)
    if not isinstance(error, dict):
        return str(error) or "the response has no text"
    cause = error.get("caused_by") or next(iter(error.get("root_cause") or [{}]))
    texts = dict.fromkeys(text for text in (error.get("reason"), cause.get("reason")) if text)
    return ": ".join(map(str, texts))


def error_body(body: object) -> object:
    """Return the `error` object of an error response, or the whole body if it has none.

    Responses to raw requests (`cluster.http.responses`) are bytes, and those of an intermediate proxy need not be JSON.
    """
    parsed = _parsed(body) if isinstance(body, bytes) else body
    return parsed.get("error", parsed) if isinstance(parsed, dict) else parsed


def _parsed(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode(errors="replace")
