"""Locks that one run at a time may hold, and the fences that it writes through and loses together with the lock.

A lock is a document in the control index. The clocks of two hosts are never compared: a holder is alive while its
document changes. Each heartbeat raises the document's sequence number, and silence is measured by the monotonic clock
of the process that waits.

A process may sleep through the loss of its lock and then resume. Its fence is an alias: Elasticsearch rejects what it
sends there after another run has moved the fence, and also a swap that has to remove the fence.
"""

import asyncio
import datetime as dt
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from typing import Any, NamedTuple, Self

import msgspec
import orjson
from elasticsearch import ApiError, AsyncElasticsearch, ConflictError, NotFoundError, TransportError

from cluster.client import Cluster
from cluster.control_index import CONTROL_BODY, ensure_index, ensure_token_keys
from cluster.http.responses import RAW_HEADERS
from indexer.clock import now_milliseconds
from indexer.errors import ElasticsearchError, LockedError, translate_client_errors
from indexer.settings import IndexerContext

# Distinguishes this process from an earlier one with the same id, as after a container restart.
_PROCESS_NONCE = secrets.token_hex(8)


class LockHolder(msgspec.Struct, frozen=True):
    """The process that holds a lock. `started` is in milliseconds since 1970 by the clock of its own host."""

    host: str
    pid: int
    incarnation: str
    started: int
    opaque_id: str

    def __str__(self) -> str:
        since = dt.datetime.fromtimestamp(self.started // 1000, dt.UTC).isoformat()
        return f"Process {self.pid} on {self.host} has held the lock since {since}"

    @property
    def is_dead(self) -> bool:
        """Whether this is a process of this host that has ended; False for other hosts, whose processes are unknown."""
        return self.host == socket.gethostname() and not self._runs

    @property
    def _runs(self) -> bool:
        if self.pid == os.getpid():
            return self.incarnation == _PROCESS_NONCE
        if os.name != "posix":
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


class LockState(msgspec.Struct, frozen=True):
    """The document of a lock: the token of the latest acquisition, and its holder until the lock is released."""

    token: int
    holder: LockHolder | None


class VersionedLockState(NamedTuple):
    """A lock state and its version, the condition of the next write."""

    state: LockState
    seq_no: int
    primary_term: int


class LockStore:
    """Reads and writes one lock. Its document is never deleted, so its tokens only rise."""

    def __init__(self, client: AsyncElasticsearch, index: str, name: str) -> None:
        self.name = name
        self._client = client
        self._index = index

    @cached_property
    def patient(self) -> Self:
        """The same, waiting while Elasticsearch is away."""
        return type(self)(Cluster.over(self._client, _RETRY_SECONDS), self._index, self.name)

    async def read(self) -> VersionedLockState | None:
        """Return the current lock, None if it was never held."""
        response = await self._get(f"lock-{self.name}")
        if response is None:
            return None
        return VersionedLockState(
            msgspec.convert(response["_source"], LockState), response["_seq_no"], response["_primary_term"]
        )

    async def write(self, state: LockState, over: VersionedLockState | None) -> VersionedLockState:
        """Replace `over`, None if there was no document; raise ConflictError if the document has changed since."""
        condition: dict[str, Any] = {"op_type": "create"}
        if over is not None:
            condition = {"if_seq_no": over.seq_no, "if_primary_term": over.primary_term}
        document = msgspec.to_builtins(state)
        response = await self._client.index(index=self._index, id=f"lock-{self.name}", document=document, **condition)
        return VersionedLockState(state, response["_seq_no"], response["_primary_term"])

    async def request(self) -> None:
        """Announce that a run waits for the lock; to be renewed about every second."""
        await self._client.index(index=self._index, id=f"wanted-{self.name}", document={})

    async def request_version(self) -> int | None:
        """Return a number that rises whenever the request is renewed, None without a request."""
        response = await self._get(f"wanted-{self.name}")
        return None if response is None else int(response["_seq_no"])

    async def withdraw_request(self) -> None:
        """Withdraw the request. Other waiting runs renew it within about a second."""
        await self._client.options(ignore_status=404).delete(index=self._index, id=f"wanted-{self.name}")

    async def _get(self, document: str) -> Any:
        try:
            return await self._client.get(index=self._index, id=document)
        except NotFoundError:
            return None


HEARTBEAT_SECONDS = 5.0
# A heartbeat without a response for this long is abandoned for the next one, or other runs would take over.
_HEARTBEAT_TIMEOUT_SECONDS = 10.0
# Six heartbeats: after that the holder has stopped, or is cut off from Elasticsearch.
HOLDER_TIMEOUT_SECONDS = 30.0
# A waiting run renews its request each second; one that is older was left behind by a run that was killed.
_REQUEST_TTL_SECONDS = 3.0
_POLL_SECONDS = 1.0
_NOTICE_INTERVAL_SECONDS = 10.0
# The control index may have been created a moment ago, or have lost a node, and not be readable yet.
_RETRY_SECONDS = 60.0


class LockAcquisition(NamedTuple):
    """The lock as it was written, and the `opaque_id` of the holder it was taken over from, None if it was free."""

    lock: VersionedLockState
    taken_over_from: str | None


class LockWait:
    """One wait for a lock, of at most `seconds` from the first poll.

    The holder's silence counts from the same poll, so a holder that is silent throughout is taken over whenever
    `seconds` is at least HOLDER_TIMEOUT_SECONDS. `nonce` distinguishes this acquisition from all others. `asks` says
    whether to request the lock from its holder.
    """

    def __init__(
        self,
        store: LockStore,
        nonce: str,
        seconds: float,
        on_wait: Callable[[str], None],
        asks: Callable[[LockHolder], bool] = lambda _: True,
    ) -> None:
        self._asks = asks
        self._store = store
        self._nonce = nonce
        self._seconds = seconds
        self._on_wait = on_wait
        self._last_seq_no: int | None = None  # of the latest heartbeat
        self._silent_since = 0.0  # when that one was first seen
        self._started_at: float | None = None
        self._notified_at: float | None = None
        self._polled_at = 0.0

    async def acquire(self) -> LockAcquisition:
        """Return the lock once this run holds it; raise LockedError naming the holder if the wait times out."""
        try:
            while True:
                current = await self._poll()
                holder = current.state.holder if current else None
                if holder is None or holder.is_dead or self._polled_at >= self._silent_since + HOLDER_TIMEOUT_SECONDS:
                    with suppress(ConflictError):
                        return await self._write_holder(current, holder)
                elif self._polled_at >= self._deadline:
                    raise LockedError(f"{holder}: wait for it to end.")
                else:
                    await self._pause(holder)
        finally:
            await self._withdraw_request()

    async def _poll(self) -> VersionedLockState | None:
        """Read the lock. A poll counts from when it was sent: no silence is known of after that."""
        requested_at = time.monotonic()
        current = await self._store.patient.read()
        if self._started_at is None or (current and current.seq_no != self._last_seq_no):
            self._last_seq_no, self._silent_since = current.seq_no if current else None, time.monotonic()
            self._started_at = self._silent_since if self._started_at is None else self._started_at
        self._polled_at = max(requested_at, self._silent_since)
        return current

    @property
    def _deadline(self) -> float:
        return (self._started_at or 0.0) + self._seconds

    async def _write_holder(self, current: VersionedLockState | None, previous: LockHolder | None) -> LockAcquisition:
        token = current.state.token + 1 if current else 1
        opaque_id = f"brokerage-{self._store.name}-{token}-{self._nonce}"
        holder = LockHolder(socket.gethostname(), os.getpid(), _PROCESS_NONCE, now_milliseconds(), opaque_id)
        written = await self._store.write(LockState(token, holder), current)
        return LockAcquisition(written, previous.opaque_id if previous else None)

    async def _pause(self, holder: LockHolder) -> None:
        """Report the wait, request the lock from its holder, and sleep until the next poll."""
        if self._notified_at is None or self._polled_at >= self._notified_at + _NOTICE_INTERVAL_SECONDS:
            self._notified_at = self._polled_at
            self._on_wait(f"{holder}: waiting up to {self._deadline - self._polled_at:.0f} s more.")
        if self._asks(holder):
            await self._store.request()
        await asyncio.sleep(min(_POLL_SECONDS, max(0.0, self._deadline - time.monotonic())))

    async def _withdraw_request(self) -> None:
        if self._notified_at is not None:
            with suppress(ApiError, TransportError):
                await self._store.withdraw_request()


class DistributedLock:
    """A lock that this run holds.

    `token` rises with every acquisition and is never used again. `opaque_id` is the X-Opaque-Id of the requests sent
    under this lock. `taken_over_from` is the `opaque_id` of the previous holder if it did not release the lock.
    """

    def __init__(self, store: LockStore, acquired: LockAcquisition) -> None:
        self._store = store
        self._version = acquired.lock
        self._state = acquired.lock.state
        self._heartbeat_lock = asyncio.Lock()
        self._last_request: int | None = None
        self._request_changed_at = 0.0
        self.taken_over_from = acquired.taken_over_from

    @property
    def token(self) -> int:
        return self._state.token

    @property
    def opaque_id(self) -> str:
        return self._state.holder.opaque_id if self._state.holder else ""

    async def verify(self) -> None:
        """Send a heartbeat; raise LockedError if another run has taken over because this one seemed dead."""
        async with self._heartbeat_lock:
            try:
                self._version = await self._store.patient.write(self._state, self._version)
            except (ConflictError, NotFoundError):
                if not await self._is_ours(self._store.patient):
                    raise LockedError("The lock was lost to another run: nothing more was changed.") from None

    async def is_requested(self) -> bool:
        """Whether another run waits for this lock. The request of a killed run expires within seconds."""
        request, at = await self._store.request_version(), time.monotonic()
        if request != self._last_request:
            self._last_request, self._request_changed_at = request, at
        return request is not None and at < self._request_changed_at + _REQUEST_TTL_SECONDS

    async def keep_alive(self) -> None:
        """Send heartbeats until cancelled; one that fails is left to the next."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            with suppress(ApiError, TransportError, LockedError, TimeoutError):
                async with asyncio.timeout(_HEARTBEAT_TIMEOUT_SECONDS):
                    await self.verify()

    async def release(self) -> None:
        """Release the lock, unless another run has taken it over."""
        with suppress(ApiError, TransportError):
            while await self._is_ours(self._store):
                with suppress(ConflictError):  # a heartbeat that was cancelled has arrived since
                    await self._store.write(LockState(self.token, None), self._version)
                    return

    async def _is_ours(self, store: LockStore) -> bool:
        """Read the lock again: the response to an earlier heartbeat may have been lost."""
        current = await store.read()
        if current is None or current.state != self._state:
            return False
        self._version = current
        return True


def ignore_wait(_notice: str) -> None:
    """Report no wait."""


@asynccontextmanager
async def acquire_lock(
    client: AsyncElasticsearch,
    control_index: str,
    name: str = "run",
    *,
    wait_seconds: float = 30.0,
    on_wait: Callable[[str], None] = ignore_wait,
) -> AsyncIterator[DistributedLock]:
    """Hold the lock called `name`; create the control index and the token keys if they do not exist.

    The lock of a dead process of this host is taken over at once. Any other holder is waited for, `wait_seconds` at
    most, and taken over when it has been silent for HOLDER_TIMEOUT_SECONDS; `on_wait` receives a notice about every
    10 seconds. Raises LockedError naming the holder if the wait times out.
    """
    await ensure_index(client, control_index, CONTROL_BODY)
    # The shard of an index that another process has just created may not be available yet.
    await ensure_token_keys(Cluster.over(client, _RETRY_SECONDS), control_index)
    store = LockStore(client, control_index, name)
    lock = DistributedLock(store, await LockWait(store, secrets.token_hex(8), wait_seconds, on_wait).acquire())
    heartbeat = asyncio.create_task(lock.keep_alive())
    try:
        yield lock
    finally:
        heartbeat.cancel()
        try:
            await asyncio.wait([heartbeat])
        finally:
            await lock.release()


@asynccontextmanager
async def open_run(
    context: IndexerContext, on_wait: Callable[[str], None] = ignore_wait
) -> AsyncIterator[DistributedLock]:
    """Hold the lock of rebuilds and of what may not run beside them; translate the client's errors."""
    control, seconds = context.connection.control_index, context.settings.lock_wait_seconds
    with translate_client_errors():
        async with acquire_lock(context.client, control, wait_seconds=seconds, on_wait=on_wait) as lock:
            yield lock


async def create_fence(context: IndexerContext, family: str, token: int, index: str) -> str:
    """Let only the holder of `token` write into `index` from now on, and return the alias to write through.

    Aliases of earlier holders of the same family are removed in the same request.
    """
    fence = f"{family}-{token}"
    existing = await context.cluster.indices.get_alias(index="*", name=f"{family}-*")
    removals: list[dict[str, Any]] = [
        {"remove": {"index": holder, "alias": alias}}
        for holder, body in existing.items()
        for alias in body["aliases"]
        if alias.removeprefix(f"{family}-").isdecimal() and (holder, alias) != (index, fence)
    ]
    actions = [{"add": {"index": index, "alias": fence}}, *removals]
    await context.cluster.indices.update_aliases(actions=actions)
    return fence


async def builder_fence(context: IndexerContext, alias: str, lock: DistributedLock, index: str) -> str:
    """Let only the holder of the lock build in `index`, and return the alias to write through.

    Raises LockedError if another run has taken over.
    """
    fence = await create_fence(context, f"{alias}-builder", lock.token, index)
    await require_sole_writer(context, lock, context.settings.retry_seconds)
    return fence


async def require_sole_writer(context: IndexerContext, lock: DistributedLock, seconds: float) -> None:
    """Return once only the holder of the lock writes through the fence that it has just created.

    What a killed run has sent before has ended by then: its stamps could replace those that are assigned from now on.
    Raises LockedError if another run has taken over: one that did so before the fence existed has not moved it. Raises
    ElasticsearchError if requests of the killed run are still running after `seconds`.
    """
    await lock.verify()
    if lock.taken_over_from is not None:
        await wait_for_bulk_tasks(context.client, lock.taken_over_from, seconds)


async def remove_fence(context: IndexerContext, index: str, fence: str) -> None:
    """Remove a fence. It may be gone already: moved by the next holder, or removed by a swap."""
    action = {"remove": {"index": index, "alias": fence}}
    with suppress(ApiError, TransportError):
        await context.client.indices.update_aliases(actions=[action])


_TASKS_PATH = "/_tasks"
_BULK_TASKS = {
    "actions": "indices:data/write/bulk*",
    "detailed": "true",
    "filter_path": "nodes.*.tasks.*.headers,node_failures",
}
_TASK_POLL_SECONDS = 0.5
# A request that was sent but not yet read at the first poll shows at the second.
_QUIET_POLLS = 2


async def wait_for_bulk_tasks(client: AsyncElasticsearch, opaque_id: str, seconds: float) -> None:
    """Wait until no bulk request with that X-Opaque-Id is running; raise ElasticsearchError if one is after `seconds`.

    A node that does not respond may still be running one.
    """
    end, quiet = time.monotonic() + seconds, 0
    while True:
        quiet = 0 if await _is_busy(client, opaque_id) else quiet + 1
        if quiet == _QUIET_POLLS:
            return
        if not quiet and time.monotonic() >= end:
            raise ElasticsearchError(
                f"Elasticsearch has been busy for {seconds:g} s with requests of an earlier run: try again later."
            )
        await asyncio.sleep(_TASK_POLL_SECONDS)


async def _is_busy(client: AsyncElasticsearch, opaque_id: str) -> bool:
    response = await client.perform_request("GET", _TASKS_PATH, params=_BULK_TASKS, headers=RAW_HEADERS)
    listed = orjson.loads(response.body)
    nodes = listed.get("nodes", {}).values()
    opaque_ids = {task.get("headers", {}).get("X-Opaque-Id") for node in nodes for task in node["tasks"].values()}
    return opaque_id in opaque_ids or "node_failures" in listed
