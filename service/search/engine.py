"""The only module that calls Elasticsearch for requests; errors of the client never leave it.

Concurrent requests share equal searches. Only a broken connection is retried, within a budget so that retries stay
rare: the retry goes to another node if there is one. Retrying a timeout or a rejection would only add load.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar, cast
from urllib.parse import quote

import orjson
from elastic_transport import (
    AsyncTransport,
    ConnectionError,  # noqa: A004 - the client's name for it
    ConnectionTimeout,
    TlsError,
    TransportError,
)

from cluster.http.nodes import LeastRequestsPool, NodeHealth, ReadingNode
from service.errors import (
    ApiError,
    DataReplaced,
    DeadlineExceeded,
    EngineUnavailable,
    NotElasticsearch,
    RebuildDue,
)
from service.http.responses import JsonBytes
from service.search.placement import EVERYTHING, Document, NoLongerServed, ShardScope, ShardTable, gone
from service.search.query import MissingFields, Selection, used_fields
from service.search.responses import (
    NodeLost,
    count_failure,
    document_source,
    malformed_response,
    nothing_found,
    require_complete,
    status_failure,
)
from service.settings import ServiceSettings
from service.telemetry.observation import CURRENT_OBSERVATION, RETRIES, SHARED_SEARCHES, Attempts, StartSpan

Result = TypeVar("Result")

# Bounds of the random backoff: it spreads the retries of requests that one node's failure hit together.
_BACKOFF_SECONDS = (0.01, 0.1)
# Tokens that a request adds; a retry takes one. In the long run one request in ten may be retried.
_TOKENS_PER_REQUEST = 0.1


class RetryBudget:
    """A token bucket that limits retries."""

    def __init__(self, capacity: int, seconds: float) -> None:
        """Start with a full bucket of `capacity` tokens; both attempts together may take `seconds`.

        `capacity` is how many requests the failure of one node can hit at once: the connections to it.
        """
        self._capacity = self._tokens = float(capacity)
        self._seconds = seconds

    async def run(self, attempt: Callable[[float], Awaitable[Result]]) -> Result:
        """Return the result of `attempt`, which gets its timeout in seconds; retry it once after NodeLost."""
        self._tokens = min(self._capacity, self._tokens + _TOKENS_PER_REQUEST)
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._seconds
        try:
            return await attempt(self._seconds)
        except NodeLost:
            backoff = random.uniform(*_BACKOFF_SECONDS)  # noqa: S311 - not used for security
            if clock() + backoff >= deadline or not self._spend():
                RETRIES.labels("refused").inc()
                raise
        await asyncio.sleep(backoff)
        return await _retry(attempt, deadline - clock())

    def _spend(self) -> bool:
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


async def _retry(attempt: Callable[[float], Awaitable[Result]], seconds: float) -> Result:
    outcome = "failed"
    try:
        result = await attempt(seconds)
        outcome = "answered"
    except asyncio.CancelledError:
        outcome = "given up"
        raise
    finally:
        RETRIES.labels(outcome).inc()
    return result


# Elasticsearch times out this long before the request's deadline, so that its own error arrives in time.
_ENGINE_MARGIN_SECONDS = 0.5
# The client times out this long after it: by then the request has failed and its search is cancelled.
_CLIENT_MARGIN_SECONDS = 1.0
# A header of every response of Elasticsearch.
_PRODUCT = "x-elastic-product"
# Statuses that any other web server may send and that would be trusted: these responses must carry the header, and
# have the type that was asked for.
_TRUSTED_STATUSES = {200, 404}
# Statuses that the caller interprets; any other is a failure.
_RETURNED_STATUSES = {200, 401, 403, 404}
# With JSON both ways Elasticsearch copies the stored source into the response without parsing it.
_JSON = {"accept": "application/json", "content-type": "application/json"}


class LiveState(NamedTuple):
    """What the last check found of live indices, by alias; mostly empty."""

    refusals: Mapping[str, Callable[[], ApiError]] = {}  # of unusable indices: the error of a request
    never_loaded: frozenset[str] = frozenset()  # no alias, and no mark: there is nothing to find
    replaced: frozenset[str] = frozenset()  # their data are not those that their marks describe
    missing: Mapping[str, MissingFields] = {}  # search fields that they lack


class SearchEngine:
    """Elasticsearch as requests use it: every call returns within a deadline or raises an ApiError."""

    def __init__(
        self,
        transport: AsyncTransport,
        headers: Mapping[str, str],
        settings: ServiceSettings,
        trace: StartSpan | None = None,
    ) -> None:
        """Use the nodes of `cluster.connection.connect`'s client, with headers for every request, in lower case.

        The transport would repeat, parse and log requests. `trace` starts the span of each request.
        """
        self._nodes = cast("LeastRequestsPool", transport.node_pool)
        self._headers = {**headers, **_JSON}
        milliseconds = max(1, round((settings.deadline_seconds - _ENGINE_MARGIN_SECONDS) * 1000))
        # Later than the request's deadline, so that only one timeout fires; it also bounds calls outside a request.
        self._retries = RetryBudget(settings.connections, settings.deadline_seconds + _CLIENT_MARGIN_SECONDS)
        self._shared_searches: SingleFlight[bytes] = SingleFlight(_count_shared, settings.shared_seconds)
        self.batches = BatchLoader()
        self.attempts = Attempts(trace)
        self.shards = ShardTable(self.get_json)  # also kept up to date by `service.health.monitor`
        # Monotonic seconds.
        self.last_response_at = float("-inf")
        self.live = LiveState()  # replaced by `service.health.monitor` after each check
        # By default partial results come as 200 with rows missing.
        self._search_options = f"allow_partial_search_results=false&timeout={milliseconds}ms"

    @property
    def nodes(self) -> tuple[NodeHealth, ...]:
        return tuple(node.health for node in self._nodes.all() if isinstance(node, ReadingNode))

    def search(
        self, index: str, body: Mapping[str, object], since: Hashable = None, shard_scope: ShardScope = EVERYTHING
    ) -> Coroutine[Any, Any, bytes]:
        """Return the complete, unparsed response of a search, which concurrent requests may share.

        Requests share a search if index, body and `since` are the same. `since` is the state of the index that the
        request has seen, which the response must not be older than. `shard_scope` says which shards are asked.
        """
        return self._placed_search(index, body, shard_scope, partial(self._share, since, index), since)

    def _share(self, since: Hashable, index: str, path: str, options: str, body: bytes) -> Awaitable[bytes]:
        search = partial(self._search, index, path, options, body)
        return self._shared_searches.run((index, path, options, body, since), search)

    def search_unshared(
        self, index: str, body: Mapping[str, object], shard_scope: ShardScope = EVERYTHING
    ) -> Coroutine[Any, Any, bytes]:
        """Return the response of a search that starts now; `shard_scope` as for `search`."""
        return self._placed_search(index, body, shard_scope, partial(self._search, index))

    async def _placed_search(
        self,
        index: str,
        body: Mapping[str, object],
        shard_scope: ShardScope,
        send: Callable[[str, str, bytes], Awaitable[bytes]],
        since: Hashable = None,
    ) -> bytes:
        """Return the response of a search that `send` sends to shards; without hits if nothing was ever loaded."""
        if index in self.live.missing:
            self.refuse_missing(index, used_fields(body))
        try:
            return await self.shards.search(index, body, shard_scope, send)
        except NoLongerServed as error:
            self._require_never_loaded(index, error, since)
        return nothing_found(body)

    async def read(
        self, index: str, identifiers: Sequence[str], selection: Selection, shard_scope: ShardScope
    ) -> list[Document]:
        """Return the documents with some identifiers that are in a selection, as a search that starts now finds them.

        `shard_scope` as for `search`; its companies only say which shards are asked.
        """
        try:
            return await self.shards.read(index, identifiers, selection, shard_scope, partial(self._read, index))
        except NoLongerServed as error:
            self._require_never_loaded(index, error)
        return []

    async def _read(self, index: str, path: str, body: bytes) -> bytes:
        self.require_available(index)
        # What searches see, not what is written and not yet visible.
        status, response = await self.request("POST", f"{path}/_mget?realtime=false", body)
        if status != 200:
            raise status_failure(status, response, body)
        return response

    def _require_never_loaded(self, index: str, error: NoLongerServed, since: Hashable = None) -> None:
        """Raise the error of a search in an index that does not exist, unless nothing was ever loaded into it.

        A request that has seen a mark is never told that there is nothing, whatever the last check has found.
        """
        if since is not None or index not in self.live.never_loaded:
            raise count_failure("missing", error)

    def refuse_missing(self, index: str, used: Iterable[str]) -> None:
        """Raise RebuildDue if a request uses search fields that the live index lacks."""
        if (missing := self.live.missing.get(index)) is not None and not missing.fields.isdisjoint(used):
            raise RebuildDue(missing.resource)

    async def get_json(self, target: str) -> tuple[int, Any]:
        """Return the status of a GET and its parsed body: 200, or 401, 403 or 404 with None."""
        return await self._request_json("GET", target, None)

    async def bulk(self, alias: str, lines: bytes) -> tuple[int, Any]:
        """Write documents through an alias that must exist; return the same as `get_json`."""
        return await self._request_json("POST", f"/{alias}/_bulk?require_alias=true", lines)

    async def _request_json(self, method: str, target: str, body: bytes | None) -> tuple[int, Any]:
        status, response = await self.request(method, target, body)
        if status != 200:
            return status, None
        try:
            return status, orjson.loads(response)
        except ValueError:
            raise malformed_response(response) from None

    def _search(self, index: str, path: str, options: str, body: bytes) -> Coroutine[Any, Any, bytes]:
        self.require_available(index)
        return self.search_complete(path, body, options)

    def require_available(self, index: str) -> None:
        """Raise ResourceUnavailable for an unusable index, or NotLoaded if nothing was loaded of any resource."""
        if (refusal := self.live.refusals.get(index)) is not None:
            raise refusal()

    def require_continued(self, index: str) -> None:
        """Raise DataReplaced if the data behind an alias were restored or replaced, and the indexer has not run yet."""
        if index in self.live.replaced:
            raise DataReplaced

    async def search_complete(self, path: str, body: bytes, options: str = "") -> bytes:
        """Return the complete response of a search; `path` is `/` and an index, or empty for a point in time.

        `options` are further parameters, each after `&`. Raises NoLongerServed if the index is gone.
        """
        status, response = await self.request("POST", f"{path}/_search?{self._search_options}{options}", body)
        if status == 404 and path:
            raise gone(response)
        if status != 200:
            raise status_failure(status, response, body)
        require_complete(response)
        return response

    async def get_document(self, index: str, identifier: str) -> dict[str, Any] | None:
        """Return the source of a document as last written, refreshed or not; None if it does not exist."""
        status, response = await self.request("GET", f"/{index}/_doc/{quote(identifier, safe='')}", None)
        if status == 404 and b'"found":false' in response:
            return None
        if status != 200:
            raise status_failure(status, response, None)
        return document_source(response, identifier)

    def request(self, method: str, target: str, body: bytes | None) -> Awaitable[tuple[int, bytes]]:
        """Return the status, 200, 401, 403 or 404, and the body; raise ApiError for any other."""
        return self._retries.run(partial(self._attempt, method, target, body))

    async def _attempt(self, method: str, target: str, body: bytes | None, seconds: float) -> tuple[int, bytes]:
        span = None if self.attempts.start_span is None else self.attempts.start_span(method, target)
        began, status = time.perf_counter(), None
        try:
            head, content = await self._nodes.get().request(method, target, body or b"", self._headers, seconds)
            status = head.status
        except TransportError as error:
            raise _transport_failure(error) from error
        finally:
            self.attempts.add(status, time.perf_counter() - began, span)
        is_json = head.headers.get("content-type", "").startswith("application/json")
        if is_json and head.headers.get(_PRODUCT) == "Elasticsearch":
            self.last_response_at = time.monotonic()
        elif status in _TRUSTED_STATUSES:
            raise count_failure("unintelligible", NotElasticsearch())
        if status not in _RETURNED_STATUSES:
            raise status_failure(status, content, body)
        return status, content


def _count_shared() -> None:
    SHARED_SEARCHES.inc()
    if (observation := CURRENT_OBSERVATION.get(None)) is not None:
        observation.is_shared = True


def _transport_failure(error: TransportError) -> ApiError:
    """Return the error for an attempt without a response."""
    reason = f"{type(error).__name__}: {error.message}"
    if isinstance(error, ConnectionTimeout):
        return count_failure("timeout", DeadlineExceeded())
    if isinstance(error, ConnectionError) and not isinstance(error, TlsError):
        return count_failure("connection", NodeLost(reason))
    return count_failure("unintelligible", EngineUnavailable(reason))


@dataclass
class _SharedTask(Generic[Result]):
    task: asyncio.Task[Result]
    started_at: float  # by the loop's clock, in seconds
    waiters: int = 0


class SingleFlight(Generic[Result]):
    """Running tasks by key. Nothing is cached: a request after the end of a task starts another.

    A request that joins a task gets a result that may predate the request by `max_age` seconds. Whatever the result
    must not be older than has to be part of the key.
    """

    def __init__(self, on_shared: Callable[[], None], max_age: float) -> None:
        """Call `on_shared` for each request that joins a task."""
        self._on_shared = on_shared
        self._max_age = max_age
        self._tasks: dict[Hashable, _SharedTask[Result]] = {}

    async def run(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Return what `work` returns or raises; concurrent requests with the same key share one call.

        A cancelled request does not affect the others; the work is cancelled with the last of them.
        """
        shared = self._tasks.get(key)
        if shared is None or asyncio.get_running_loop().time() - shared.started_at > self._max_age:
            shared = self._start(key, work)
        else:
            self._on_shared()
        shared.waiters += 1
        try:
            return await asyncio.shield(shared.task)
        finally:
            shared.waiters -= 1
            if not shared.waiters:
                self._remove(key, shared)
                shared.task.cancel()

    def _start(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Result]]) -> _SharedTask[Result]:
        shared = self._tasks[key] = _SharedTask(asyncio.create_task(work()), asyncio.get_running_loop().time())
        shared.task.add_done_callback(partial(self._on_done, key, shared))
        return shared

    def _on_done(self, key: Hashable, shared: _SharedTask[Result], task: asyncio.Task[Result]) -> None:
        if not task.cancelled():
            task.exception()  # mark it as retrieved: all waiters may be gone
        self._remove(key, shared)

    def _remove(self, key: Hashable, shared: _SharedTask[Result]) -> None:
        if self._tasks.get(key) is shared:
            del self._tasks[key]


Records = Mapping[str, JsonBytes]
Read = Callable[[Sequence[str]], Coroutine[Any, Any, Records]]

# A read that takes longer, perhaps for ever, blocks no other: the next one starts alongside it.
_SLOW_READ_SECONDS = 0.05
# Bounds the size of a response; further records go into the read after.
_MAX_BATCH_SIZE = 64


@dataclass(eq=False)
class _Batch:
    """The identifiers of one read, how many requests wait for it, and how the first of them reads."""

    read: Read
    result: asyncio.Future[Records]
    context: Context = field(default_factory=copy_context)
    identifiers: dict[str, None] = field(default_factory=dict)
    waiters: int = 0
    task: asyncio.Task[Records] | None = None  # once started
    is_open: bool = True  # to more identifiers, until the read is sent

    async def run(self) -> Records:
        """Read all identifiers that were added in the same iteration of the event loop."""
        self.is_open = False
        return await self.read(list(self.identifiers))


@dataclass
class _Queue:
    batches: deque[_Batch] = field(default_factory=deque)  # waiting to start
    current: _Batch | None = None  # the read they wait for


class BatchLoader:
    """Reads records by identifier, those of the same group together.

    Most of what a read of one record costs Elasticsearch is overhead; further records add little. No request waits for
    a batch to fill: without a running read a record is read at once.
    """

    def __init__(self) -> None:
        self._queues: dict[Hashable, _Queue] = {}

    async def load(self, group: Hashable, identifier: str, read: Read) -> JsonBytes | None:
        """Return a record, None if it does not exist; raise what `read` raises.

        `group` says which records may share a read: those of one resource, scope, licence and precision. `read`
        returns the records that exist, by identifier. The read for a request always starts after the request
        arrived, and is cancelled with the last request that waits for it.
        """
        queue = self._queues.setdefault(group, _Queue())
        batch = _add_to_batch(queue, identifier, read)
        if queue.current is None:
            self._start_next(group, queue)
        batch.waiters += 1
        try:
            return (await asyncio.shield(batch.result)).get(identifier)
        finally:
            batch.waiters -= 1
            if not batch.waiters:
                _cancel(queue, batch)

    def _start_next(self, group: Hashable, queue: _Queue) -> None:
        if not queue.batches:
            queue.current = None
            del self._queues[group]
            return
        batch = queue.current = queue.batches.popleft()
        batch.task = asyncio.create_task(batch.run(), context=batch.context)
        advance = partial(self._advance, group, queue, batch)
        timer = asyncio.get_running_loop().call_later(_SLOW_READ_SECONDS, advance)
        batch.task.add_done_callback(partial(_set_result, batch, timer))
        batch.task.add_done_callback(advance)

    def _advance(self, group: Hashable, queue: _Queue, batch: _Batch, _: object = None) -> None:
        """Start the next batch once a read has ended or is slow, whichever comes first."""
        if queue.current is batch:
            self._start_next(group, queue)


def _add_to_batch(queue: _Queue, identifier: str, read: Read) -> _Batch:
    batch = queue.batches[-1] if queue.batches else queue.current
    if batch is None or not batch.is_open or len(batch.identifiers) == _MAX_BATCH_SIZE:
        batch = _Batch(read, asyncio.get_running_loop().create_future())
        queue.batches.append(batch)
    batch.identifiers[identifier] = None
    return batch


def _set_result(batch: _Batch, timer: asyncio.TimerHandle, task: asyncio.Task[Records]) -> None:
    timer.cancel()
    if task.cancelled():
        batch.result.cancel()
    elif (error := task.exception()) is not None:
        batch.result.set_exception(error)
        batch.result.exception()  # mark it as retrieved: all waiters may be gone
    else:
        batch.result.set_result(task.result())


def _cancel(queue: _Queue, batch: _Batch) -> None:
    batch.is_open = False
    if batch.task is not None:
        batch.task.cancel()
    else:
        queue.batches.remove(batch)
