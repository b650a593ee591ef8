"""Rate buckets in Redis, shared by all processes and hosts: exact, because only Redis counts, by its own clock.

Requests that arrive during a round trip are sent as one batch with the next, over a single connection; a client that
disconnects cannot interrupt an exchange. After a timeout or an error Redis is considered unreachable: no request waits
for it until a background task has reconnected.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError

from cluster.settings import SettingError

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection

_RESPONSE_TIMEOUT_SECONDS = 0.1
_CONNECT_TIMEOUT_SECONDS = 1.0
_RECONNECT_INTERVAL_SECONDS = 1.0

# For each name: step and depth in microseconds. A negative step is a refund. Returns the backlogs (`RateLimitState`).
# A bucket that is full for longer, as after the clock was set back, is as full as it can be.
_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local backlogs = {}
for i, name in ipairs(KEYS) do
  local step, depth = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  local backlog = math.min(math.max((tonumber(redis.call('GET', name)) or 0) - now, 0), depth) + step
  if backlog <= 0 then
    redis.call('DEL', name)
  elseif backlog <= depth then
    redis.call('SET', name, string.format('%.0f', now + backlog), 'PX', math.ceil(backlog / 1000))
  end
  backlogs[i] = backlog
end
return backlogs
"""
_SHA = hashlib.sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()

_log = logging.getLogger("service")


class _PendingHit(NamedTuple):
    """A request that waits for its backlog, or for None if Redis is unreachable."""

    name: str
    step: int
    depth: int
    backlog: asyncio.Future[int | None]


class RedisBuckets:
    """Buckets with a common name prefix; opened and closed with the application."""

    def __init__(self, url: str, prefix: str) -> None:
        """Set the address, without connecting; raise SettingError if it is invalid."""
        try:
            self._pool = ConnectionPool.from_url(
                url, socket_connect_timeout=_CONNECT_TIMEOUT_SECONDS, socket_timeout=None, retry=Retry(NoBackoff(), 0)
            )
        except ValueError:
            raise SettingError("BROKERAGE_REDIS_URL is not a valid Redis URL.") from None
        self._prefix = prefix
        self._connection: AbstractConnection | None = None
        self._waiting: list[_PendingHit] = []
        self._batch_task: asyncio.Task[None] | None = None
        self._reconnect_task: asyncio.Task[None] | None = None

    @property
    def is_unreachable(self) -> bool:
        return self._connection is None

    async def open(self) -> None:
        """Connect; after a failure, retry in the background."""
        error = await self.failure()
        if error is not None:
            self._on_failure(error)

    async def close(self) -> None:
        """Cancel the background tasks and disconnect."""
        tasks = [task for task in (self._reconnect_task, self._batch_task) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._disconnect()

    async def take(self, name: str, step: int, depth: int) -> int | None:
        """Count a request and return `RateLimitState.backlog_microseconds`; None if Redis is unreachable."""
        if self.is_unreachable:
            return None
        backlog: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_PendingHit(self._prefix + name, step, depth, backlog))
        if self._batch_task is None:
            self._batch_task = asyncio.create_task(self._send_batches())
        return await backlog

    async def failure(self) -> Exception | None:
        """Connect and run the script once; return the error, or None."""
        connection: AbstractConnection = self._pool.make_connection()  # type: ignore[no-untyped-call]
        trial = _PendingHit(f"{self._prefix}trial", 1, 1, asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_SECONDS):
                await connection.connect()  # type: ignore[no-untyped-call]
                await _backlogs(connection, [trial])
            self._connection = connection
        except Exception as error:
            return error
        finally:
            if self._connection is not connection:
                await connection.disconnect(nowait=True)
        return None

    async def _send_batches(self) -> None:
        """Send all waiting requests, in batches, until none is left."""
        hits: list[_PendingHit] = []
        try:
            while self._waiting:
                hits, self._waiting = self._waiting, []
                _resolve(hits, await self._send(hits))
        finally:
            self._batch_task = None
            # Not empty only after a cancellation.
            _resolve(hits + self._waiting, None)

    async def _send(self, hits: list[_PendingHit]) -> list[int] | None:
        if self._connection is None:
            return None
        try:
            async with asyncio.timeout(_RESPONSE_TIMEOUT_SECONDS):
                return await _backlogs(self._connection, hits)
        # Whatever the error, requests are served without Redis.
        except Exception as error:
            await self._disconnect()
            self._on_failure(error)
            return None

    def _on_failure(self, error: Exception) -> None:
        # Only the class: the text of some errors repeats what was sent.
        _log.warning("Redis is unreachable (%s): limits are counted in this process only.", type(error).__name__)
        self._reconnect_task = asyncio.create_task(self._reconnect())

    async def _reconnect(self) -> None:
        error = await self.failure()
        while error is not None:
            await asyncio.sleep(_RECONNECT_INTERVAL_SECONDS)
            error = await self.failure()
        _log.warning("Redis is reachable again: limits are shared.")

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)


def _resolve(hits: list[_PendingHit], backlogs: list[int] | None) -> None:
    results: Sequence[int | None] = backlogs or [None] * len(hits)
    for hit, backlog in zip(hits, results, strict=True):
        # The client may have left.
        if not hit.backlog.done():
            hit.backlog.set_result(backlog)


async def _backlogs(connection: AbstractConnection, hits: list[_PendingHit]) -> list[int]:
    """Run the script once for all hits; raise the errors of the connection."""
    names = [hit.name for hit in hits]
    numbers = [number for hit in hits for number in (hit.step, hit.depth)]
    arguments: tuple[str | int, ...] = (len(hits), *names, *numbers)
    try:
        backlogs = await _execute(connection, "EVALSHA", _SHA, *arguments)
    except NoScriptError:
        backlogs = await _execute(connection, "EVAL", _SCRIPT, *arguments)
    return [_possible(hit, int(backlog)) for hit, backlog in zip(hits, backlogs, strict=True)]


def _possible(hit: _PendingHit, backlog: int) -> int:
    """Return a backlog; raise ValueError for one that no bucket has, which would refuse a key for years."""
    if not min(hit.step, 0) <= backlog <= hit.depth + hit.step:
        raise ValueError(f"a bucket of {hit.depth} microseconds cannot have a backlog of {backlog}")
    return backlog


async def _execute(connection: AbstractConnection, *command: str | int) -> Any:
    await connection.send_command(*command, check_health=False)
    return await connection.read_response()
