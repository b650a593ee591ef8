"""Bulk requests as raw bytes, with their own retries, a result for every document, and limits that follow the load.

The limits are halved after an overload and raised slowly while requests succeed: additive increase and multiplicative
decrease, as in TCP, converge near the capacity of the cluster.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import orjson
from elasticsearch import ApiError, AsyncElasticsearch, ConnectionError, ConnectionTimeout  # noqa: A004 - the client's name for it

from cluster.client import RETRYABLE_STATUSES, Backoff, Cluster, error_reason, is_write_block
from indexer.documents.builder import PendingDocument
from indexer.errors import BlockedError, ElasticsearchError, FencedError
from indexer.scan import IndexRow
from indexer.settings import IndexerContext, IndexerSettings
from mappings.shards import ONE_SHARD, ShardRanges
from mappings.stored_document import stored_feed_key

# With the JSON media type the client passes the body through; with NDJSON it would copy it twice.
BULK_HEADERS = dict.fromkeys(("accept", "content-type"), "application/vnd.elasticsearch+json; compatible-with=9")
# Reduces the response to a few bytes per document.
_FILTER_PATH = "errors,items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by"
_CREATED = 201
_MISSING = 404
_CONFLICT = 409
_TOO_LARGE = 413
_REJECTED = frozenset({400, 413})
_LARGE_BYTES = 100_000  # a document below never exhausts the memory of Elasticsearch by itself


class BulkWrite(NamedTuple):
    """One document to write: its source bytes under an external version. `document` is None for a copy."""

    id: str
    version: int
    source: bytes
    document: PendingDocument | None = None


@dataclass
class BulkResult:
    """The result of some writes; those that it does not list were created.

    `existing` are documents that were there before: repeated in the source, or sent again after a lost response.
    `rejected` come with the reason, a sentence without its full stop.
    """

    existing: list[BulkWrite] = field(default_factory=list)
    rejected: list[tuple[BulkWrite, str]] = field(default_factory=list)


@dataclass(frozen=True)
class BulkOptions:
    """The conditions under which a sender writes.

    `replaces_equal` also overwrites a document of the same version. With `require_alias` the target must be an alias:
    removing it fences out a writer that lost its lock. `opaque_id` is the X-Opaque-Id of every request, if it is
    not empty. `ranges` are those of the index behind the target; they route each document by its own feed key.
    """

    replaces_equal: bool = False
    require_alias: bool = False
    opaque_id: str = ""
    ranges: ShardRanges = ONE_SHARD


def _routing_member(ranges: ShardRanges, key: str) -> bytes:
    """Return the member of a bulk action that routes a feed key, after a comma; nothing for one shard."""
    routing = ranges.routing(key)
    return b"" if routing is None else b',"routing":"%b"' % routing.encode()


class BulkSender:
    """Sends writes to one index or alias, as fast as the cluster accepts them.

    One call sends its requests sequentially; those of several calls run concurrently, within the adaptive limit.
    """

    def __init__(
        self,
        client: AsyncElasticsearch,
        index: str,
        limit: AdaptiveLimit,
        settings: IndexerSettings,
        options: BulkOptions,
    ) -> None:
        self.client = client
        self.limit = limit
        self.retry_seconds = settings.retry_seconds
        self.is_fenced = options.require_alias
        kind = b"external_gte" if options.replaces_equal else b"external"
        self.ranges = options.ranges
        self._head = b'{"index":{"_id":%b,"version":%d,"version_type":"' + kind + b'"%b}}\n'
        self.index = index
        self._path = f"/{index}/_bulk"
        self._parameters = {"filter_path": _FILTER_PATH} | ({"require_alias": "true"} if options.require_alias else {})
        self._headers = dict(BULK_HEADERS)
        self.opaque_id = options.opaque_id
        if self.opaque_id:
            self._headers["x-opaque-id"] = self.opaque_id

    async def send(self, writes: Sequence[BulkWrite]) -> BulkResult:
        """Write all documents.

        Raises ElasticsearchError if writes are blocked or nothing is accepted for `retry_seconds`, and FencedError if
        the alias was removed.
        """
        result, backoff, refused_at = BulkResult(), Backoff(self.retry_seconds), dict[str, int]()
        pending = deque([writes] if writes else [])
        while pending:
            part, outcome = await self._attempt(pending, result)
            if is_large := outcome.is_overload and len(part) == 1 and len(part[0].source) > _LARGE_BYTES:
                refused_at.setdefault(part[0].id, self.limit.accepted)
                pending.append(part)  # the others do not wait for a document that may never be accepted
            else:
                pending.extendleft(reversed(outcome.retries))
            if sum(map(len, outcome.retries)) < len(part):
                backoff = Backoff(self.retry_seconds)
            if outcome.error is not None:
                if await backoff.wait(outcome.error):
                    self.limit.retries += 1
                elif is_large and self.limit.accepted > refused_at[part[0].id]:
                    pending.pop()
                    result.rejected.append((part[0], _refused_alone(outcome.error)))
                    backoff = Backoff(self.retry_seconds)
                else:
                    raise outcome.error
        return result

    async def _attempt(
        self, pending: deque[Sequence[BulkWrite]], result: BulkResult
    ) -> tuple[Sequence[BulkWrite], _RequestOutcome]:
        """Wait for a slot, then send as many of the first pending writes as the limit allows."""
        async with self.limit.slot() as slot:
            writes = pending.popleft()
            count = self.limit.fitting_count(len(write.source) for write in writes)
            if count < len(writes):
                pending.appendleft(writes[count:])
            outcome = await self._post(writes[:count], result)
        if outcome.is_overload:
            self.limit.on_overload(slot)
        elif not outcome.retries:
            self.limit.on_success()
        return writes[:count], outcome

    async def _post(self, part: Sequence[BulkWrite], result: BulkResult) -> _RequestOutcome:
        try:
            response = await self._request(part)
        except ConnectionTimeout as error:
            return _RequestOutcome([part], error, is_overload=True)
        except ConnectionError as error:
            return _RequestOutcome([part], error)
        except ApiError as error:
            return _whole_request_failure(part, error, result)
        busy = self._classify_items(part, response["items"], result)
        if not busy:
            return _RequestOutcome()
        if any(_exceeds_memory(item["index"]) for item in response["items"]):
            return _RequestOutcome(_halves(busy) if len(busy) > 1 else [busy])
        overload = ElasticsearchError(
            f"Elasticsearch has rejected documents as overloaded for {self.retry_seconds:g} s."
        )
        return _RequestOutcome([busy], overload, is_overload=True)

    async def _request(self, part: Sequence[BulkWrite]) -> Any:
        pieces: list[bytes] = []
        for write in part:
            head = self._head % (orjson.dumps(write.id), write.version, self._routing(write))
            pieces += (head, write.source, b"\n")
        return await self.client.perform_request(
            "POST", self._path, params=self._parameters, headers=self._headers, body=b"".join(pieces)
        )

    def _routing(self, write: BulkWrite) -> bytes:
        return _routing_member(self.ranges, stored_feed_key(write.source)) if self.ranges.is_routed else b""

    def _classify_items(
        self, part: Sequence[BulkWrite], items: list[dict[str, Any]], result: BulkResult
    ) -> list[BulkWrite]:
        """Add the items to `result`; return the writes to retry because the cluster is overloaded."""
        busy = []
        for write, item in zip(part, items, strict=True):
            entry = item["index"]
            status = entry["status"]
            if status == _CREATED:
                continue
            if status < 300 or status == _CONFLICT:
                result.existing.append(write)
            elif status in _REJECTED and not _lacks_routing(entry):
                result.rejected.append((write, error_reason(entry)))
            elif len(part) == 1 and _exceeds_memory(entry):
                result.rejected.append((write, _never_accepted(entry)))
            elif status in RETRYABLE_STATUSES and not is_write_block(entry):
                busy.append(write)
            else:
                raise self._fatal_error(status, entry)
        return busy

    def _fatal_error(self, status: int, entry: dict[str, Any]) -> ElasticsearchError | FencedError:
        if self.is_fenced and status == _MISSING and entry["error"]["type"] == "index_not_found_exception":
            return FencedError("Another run has taken over and removed the alias that this one writes through.")
        return _bulk_error(status, entry)


@dataclass(frozen=True)
class _RequestOutcome:
    """The outcome of one request: the writes to retry, after a backoff if there is an error."""

    retries: Sequence[Sequence[BulkWrite]] = ()
    error: Exception | None = None
    is_overload: bool = False


def _whole_request_failure(part: Sequence[BulkWrite], error: ApiError, result: BulkResult) -> _RequestOutcome:
    """Handle a request that was rejected as a whole: one that is too large is halved, down to the document at fault."""
    status = error.meta.status
    is_too_large = status == _TOO_LARGE or _exceeds_memory(error.body)
    if status in RETRYABLE_STATUSES and not is_too_large and not is_write_block(error.body):
        return _RequestOutcome([part], _bulk_error(status, error.body), is_overload=True)
    if status not in _REJECTED and not is_too_large:
        raise _bulk_error(status, error.body) from error
    if len(part) == 1:
        result.rejected.append((part[0], _never_accepted(error.body) if is_too_large else error_reason(error.body)))
        return _RequestOutcome()
    return _RequestOutcome(_halves(part))


def _halves(part: Sequence[BulkWrite]) -> tuple[Sequence[BulkWrite], Sequence[BulkWrite]]:
    return part[: len(part) // 2], part[len(part) // 2 :]


# In a rejection under memory pressure: the bytes of this request alone, and the most that any may have.
_OWN_BYTES = re.compile(r"_operation_bytes=([0-9]+), max_[a-z_]+=([0-9]+)")


def _exceeds_memory(body: object) -> bool:
    """Whether a request was rejected because it alone exceeds what Elasticsearch sets aside for writes.

    Waiting does not help, unlike with a rejection because of other requests.
    """
    match = _OWN_BYTES.search(error_reason(body))
    return match is not None and int(match[1]) > int(match[2])


def _never_accepted(body: object) -> str:
    """Return the reason for a document that no amount of waiting helps."""
    return (
        f"is too large for Elasticsearch: {error_reason(body)}. Shorten the record, or give Elasticsearch more memory"
    )


def _refused_alone(error: Exception) -> str:
    return f"was rejected while others were accepted: {str(error).rstrip('.')}. Shorten the record"


def _bulk_error(status: int, body: object) -> ElasticsearchError:
    """Return the error for a request, or a document of it, that failed for good."""
    if is_write_block(body):
        return BlockedError(body)
    return ElasticsearchError(f"Elasticsearch returned {status} to a bulk request: {error_reason(body)}.")


def _lacks_routing(entry: dict[str, object]) -> bool:
    """Whether a document was sent without the routing value that an index of several shards requires."""
    error = entry.get("error")
    return isinstance(error, dict) and error.get("type") == "routing_missing_exception"


_MIN_DOCUMENTS = 10
_MIN_BYTES = 100_000
_FULL_SHARE = 1024  # the share at which the limits equal the settings
_INCREASE = 51  # of the full share: 20 steps lead from the minimum to the settings
_SUCCESSES_PER_INCREASE = 20  # requests between two steps


class AdaptiveLimit:
    """The limits of bulk requests, shared by all senders of one run.

    They start at the settings and never exceed them. Their minimum is 10 documents and 100 kB per request, and one
    request in flight.
    """

    def __init__(self, settings: IndexerSettings) -> None:
        self._settings = settings
        self._share = _FULL_SHARE
        self._undisturbed = 0
        self._halvings = 0
        self._running = 0
        self._changed = asyncio.Event()
        self.retries = 0  # requests that were sent again
        self.accepted = 0  # requests of which nothing had to be sent again

    @property
    def documents(self) -> int:
        return self._part(self._settings.bulk_documents, _MIN_DOCUMENTS)

    @property
    def bytes(self) -> int:
        """The maximum source bytes in one request; a larger document is sent alone."""
        return self._part(self._settings.bulk_bytes, _MIN_BYTES)

    @property
    def in_flight(self) -> int:
        return self._part(self._settings.bulks_in_flight, 1)

    def _part(self, setting: int, least: int) -> int:
        return max(min(setting, least), setting * self._share // _FULL_SHARE)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[int]:
        """Wait for a slot among the requests in flight; yields the token to pass to `on_overload`."""
        while self._running >= self.in_flight:
            self._changed.clear()
            await self._changed.wait()
        self._running += 1
        try:
            yield self._halvings
        finally:
            self._running -= 1
            self._changed.set()

    def fitting_count(self, sizes: Iterable[int]) -> int:
        """Return how many documents of these sizes, in bytes, fit into one request: at least one."""
        count, remaining = 0, self.bytes
        for count, size in enumerate(islice(sizes, self.documents), start=1):
            remaining -= size
            if remaining < 0 and count > 1:
                return count - 1
        return count

    def on_overload(self, slot: int) -> None:
        """Halve the limits, but only once for all requests that were in flight together."""
        self._undisturbed = 0
        if slot == self._halvings:
            self._halvings += 1
            self._share //= 2

    def on_success(self) -> None:
        """Count a successful request; after enough of them, raise the limits by one step."""
        self.accepted += 1
        self._undisturbed += 1
        if self._undisturbed >= _SUCCESSES_PER_INCREASE:
            self._undisturbed = 0
            self._share = min(_FULL_SHARE, self._share + _INCREASE)
            self._changed.set()


def bulk_sender(
    context: IndexerContext, index: str, options: BulkOptions, limit: AdaptiveLimit | None = None
) -> BulkSender:
    """Return a sender to an index or alias; without the `limit` of a run it has one of its own."""
    settings = context.settings
    return BulkSender(context.client, index, limit or AdaptiveLimit(settings), settings, options)


_DELETES_PER_REQUEST = 1_000
_DELETE_ACTION = b'{"delete":{"_id":%b,"version":%d,"version_type":"external_gte"%b}}\n'


async def delete_documents(sender: BulkSender, rows: Sequence[IndexRow]) -> None:
    """Delete documents of the sender's index; one that is gone already counts as deleted.

    Each keeps its version: a later write needs at least the same. Raises ElasticsearchError if one cannot be deleted,
    for example because another run has removed the alias.
    """
    for at in range(0, len(rows), _DELETES_PER_REQUEST):
        await _delete(sender, rows[at : at + _DELETES_PER_REQUEST])


async def _delete(sender: BulkSender, rows: Sequence[IndexRow]) -> None:
    actions = [
        _DELETE_ACTION % (orjson.dumps(row.id), row.stored_version, _routing_member(sender.ranges, row.feed_key))
        for row in rows
    ]
    fence = "&require_alias=true" if sender.is_fenced else ""
    path = f"/{sender.index}/_bulk?filter_path=errors,items.*.error{fence}"
    cluster = Cluster.over(sender.client, sender.retry_seconds)
    response = await cluster.perform_request("POST", path, headers=BULK_HEADERS, body=b"".join(actions))
    if response.body["errors"]:
        refused = next(item["delete"] for item in response.body["items"] if item)
        raise ElasticsearchError(f"Elasticsearch did not delete a document: {error_reason(refused)}.")
