"""Buckets in Redis, shared by all processes and hosts: exact, since Redis alone counts, by its own clock.

Requests that come while one round trip is under way are sent together with the next: one connection carries them all,
and no client that leaves can cut an exchange in two. Without an answer in time, or with an error, Redis is away: nobody
waits for it until a connection of the background has found it well again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError

from cluster.settings import SettingError
from service.limits.redis_url import REDIS_URL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redis.asyncio.connection import AbstractConnection

_PATIENCE_SECONDS = 0.1
_CONNECT_SECONDS = 1.0
_LOOK_AGAIN_SECONDS = 1.0

# For each name: step and depth in microseconds. A negative step puts one back. Answers the backlogs (`Standing`).
_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local backlogs = {}
for i, name in ipairs(KEYS) do
  local step, depth = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  local backlog = math.max((tonumber(redis.call('GET', name)) or 0) - now, 0) + step
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


class _Hit(NamedTuple):
    """One that waits for a backlog, or for None when Redis is away."""

    name: str
    step: int
    depth: int
    told: asyncio.Future[int | None]


class SharedBuckets:
    """Buckets by name below a prefix; opened and closed with the application."""

    def __init__(self, url: str, prefix: str) -> None:
        """Keep how to connect; raise SettingError for what is not an address of Redis."""
        try:
            self._pool = ConnectionPool.from_url(
                url, socket_connect_timeout=_CONNECT_SECONDS, socket_timeout=None, retry=Retry(NoBackoff(), 0)
            )
        except ValueError:
            raise SettingError(f"{REDIS_URL} is not an address of Redis.") from None
        self._prefix = prefix
        self._connection: AbstractConnection | None = None
        self._waiting: list[_Hit] = []
        self._flight: asyncio.Task[None] | None = None
        self._search: asyncio.Task[None] | None = None

    @property
    def is_away(self) -> bool:
        """Whether nobody asks Redis for now."""
        return self._connection is None

    async def open(self) -> None:
        """Connect; when that fails, go on trying in the background."""
        error = await self.failure()
        if error is not None:
            self._tell_away(error)
            self._search = asyncio.create_task(self._searched())

    async def close(self) -> None:
        """End what is under way."""
        tasks = [task for task in (self._search, self._flight) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._drop()

    async def take(self, name: str, step: int, depth: int) -> int | None:
        """Return `Standing.backlog` behind one request more; None when Redis is away."""
        if self.is_away:
            return None
        told: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Hit(self._prefix + name, step, depth, told))
        if self._flight is None:
            self._flight = asyncio.create_task(self._fly())
        return await told

    async def failure(self) -> Exception | None:
        """Connect and try the script; return why that failed."""
        connection: AbstractConnection = self._pool.make_connection()  # type: ignore[no-untyped-call]
        trial = _Hit(f"{self._prefix}trial", 1, 1, asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await connection.connect()  # type: ignore[no-untyped-call]
                await _backlogs(connection, [trial])
            self._connection = connection
        except Exception as error:
            return error
        finally:
            if self._connection is not connection:
                await connection.disconnect(nowait=True)
        return None

    async def _fly(self) -> None:
        """Ask for all who wait, again and again until nobody does."""
        hits: list[_Hit] = []
        try:
            while self._waiting:
                hits, self._waiting = self._waiting, []
                _tell(hits, await self._asked(hits))
        finally:
            self._flight = None
            # Only one that was cancelled leaves any.
            _tell(hits + self._waiting, None)

    async def _asked(self, hits: list[_Hit]) -> list[int] | None:
        if self._connection is None:
            return None
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await _backlogs(self._connection, hits)
        # Whatever it is, the requests are answered all the same.
        except Exception as error:
            self._tell_away(error)
            await self._drop()
            self._search = asyncio.create_task(self._searched())
            return None

    async def _searched(self) -> None:
        error = await self.failure()
        while error is not None:
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            error = await self.failure()
        _log.warning("Redis is back: limits are shared again.")

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    def _tell_away(self, error: Exception) -> None:
        # The kind alone: the text of some errors repeats what was sent.
        _log.warning("Redis is away (%s): each process limits by itself.", type(error).__name__)


def _tell(hits: list[_Hit], backlogs: list[int] | None) -> None:
    told: Sequence[int | None] = backlogs or [None] * len(hits)
    for hit, backlog in zip(hits, told, strict=True):
        # The client may have left.
        if not hit.told.done():
            hit.told.set_result(backlog)


async def _backlogs(connection: AbstractConnection, hits: list[_Hit]) -> list[int]:
    """Run the script once for all of them; raise what the connection raises."""
    names = [hit.name for hit in hits]
    numbers = [number for hit in hits for number in (hit.step, hit.depth)]
    arguments: tuple[str | int, ...] = (len(hits), *names, *numbers)
    try:
        answer = await _exchanged(connection, "EVALSHA", _SHA, *arguments)
    except NoScriptError:
        answer = await _exchanged(connection, "EVAL", _SCRIPT, *arguments)
    return [int(backlog) for _, backlog in zip(hits, answer, strict=True)]


async def _exchanged(connection: AbstractConnection, *command: str | int) -> Any:
    await connection.send_command(*command, check_health=False)
    return await connection.read_response()
