"""The indexer's client of Elasticsearch: it repeats requests while the cluster is away, and waits for all copies.

Repeats are spaced by exponential backoff with full jitter, and end after a number of seconds. The client's own retries
are disabled: they are not spaced and multiply the load that caused them.

After a refresh every copy that searches may ask shows all writes. Elasticsearch does not report a copy that it could
not reach for a refresh as failed, and keeps it in use: a mark that is published then promises what a reader of that
copy does not find.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypeVar

from elasticsearch import (
    ApiError,
    AsyncElasticsearch,
    ConnectionError,  # noqa: A004 - the client's name for it
    ConnectionTimeout,
    TransportError,
)

from cluster.http.responses import RAW_HEADERS
from indexer.errors import ElasticsearchError, is_write_block, translated

Response = TypeVar("Response")

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
            reason = translated(error) if isinstance(error, ApiError | TransportError) else error
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


# One request on a large index, as the first refresh or a merge, may take hours.
LONG_SECONDS = 24 * 3600
_POLL_SECONDS = 0.5
_MOMENT = "1s"
_STARTING = "INITIALIZING"
_NOTHING = -1


class Cluster(AsyncElasticsearch):
    """A client that repeats every request for up to `retry_seconds`: only for what may arrive twice."""

    retry_seconds = 0.0

    @classmethod
    def over(cls, client: AsyncElasticsearch, retry_seconds: float) -> Self:
        """Return this client over the connections of another one."""
        cluster = cls(_transport=client.transport)
        # What `options` of the client passes on to a view of itself.
        cluster._headers, cluster._request_timeout = client._headers, client._request_timeout  # noqa: SLF001
        cluster.retry_seconds = retry_seconds
        return cluster

    def options(self, **options: Any) -> Self:
        """Return a view of this client with other options."""
        view = super().options(**options)
        view.retry_seconds = self.retry_seconds
        return view

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

    async def refresh_completely(self, index: str) -> None:
        """Make all writes visible in each assigned copy of each shard.

        Raises ElasticsearchError if a copy that is in use cannot be refreshed for `retry_seconds`.
        """
        patient = self.options(request_timeout=LONG_SECONDS)

        async def is_refreshed() -> bool:
            shards = (await patient.indices.refresh(index=index))["_shards"]
            if shards["successful"] == shards["total"]:
                return True
            # Copies that were not reached may be on no node: such a copy starts with all writes visible.
            health = await self._health(index)
            return bool(health["status"] != "red" and shards["successful"] >= int(health["active_shards"]))

        seconds = self.retry_seconds
        await _until(
            is_refreshed, seconds, f"{index} could not be refreshed in every copy of its shards for {seconds:g} s."
        )

    async def refresh_to_seq_nos(self, index: str) -> list[int]:
        """Refresh an index and return for each shard a `_seq_no` up to which all writes are visible, -1 without any.

        Raises ElasticsearchError if a shard is on no node, or its copies cannot be refreshed, for `retry_seconds`.
        """
        found = dict[int, int]()

        async def are_found() -> bool:
            response = await self.indices.stats(index=index, metric="docs", level="shards")
            found.update(_checkpoints(response))
            shards = response["_shards"]
            if shards["successful"] == shards["total"]:
                return True
            health = await self._health(index)
            return health["status"] != "red" and len(found) == int(health["active_primary_shards"])

        await _until(are_found, self.retry_seconds, f"{index} is red: a shard of it is on none of the nodes.")
        await self.refresh_completely(index)
        return [found[number] for number in range(len(found))]

    async def _health(self, index: str) -> Mapping[str, Any]:
        patient = self.options(ignore_status=408)
        health: Mapping[str, Any] = (await patient.cluster.health(index=index, timeout=_MOMENT)).body
        return health


def _checkpoints(response: Any) -> dict[int, int]:
    """Return the global checkpoint of each shard whose primary has answered.

    All copies have the writes up to it. Above, the number of a write may be used again for another one, if the primary
    is lost before its copies have that write.
    """
    return {
        int(number): max(_NOTHING, int(copy["seq_no"]["global_checkpoint"]))
        for statistics in response.get("indices", {}).values()
        for number, copies in statistics["shards"].items()
        for copy in copies
        if copy["routing"]["primary"] and copy["routing"]["state"] != _STARTING
    }


async def _until(condition: Callable[[], Awaitable[bool]], seconds: float, failure: str) -> None:
    end = time.monotonic() + seconds
    while not await condition():
        if time.monotonic() >= end:
            raise ElasticsearchError(failure)
        await asyncio.sleep(_POLL_SECONDS)
