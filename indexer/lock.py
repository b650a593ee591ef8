"""The lock that lets one run at a time change what is served: a document with a heartbeat in the control index."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import secrets
import socket
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec
from elasticsearch import ApiError, ConflictError, NotFoundError, TransportError

from cluster.control import CONTROL_BODY, ensure_index
from indexer.clocks import now
from indexer.errors import LockedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from elasticsearch import AsyncElasticsearch

LOCK_ID = "lock"
HEARTBEAT_SECONDS = 10.0
STALE_MILLISECONDS = 30_000

# Tells this process from an earlier one with the same number, as in a container that starts again.
_INCARNATION = secrets.token_hex(8)


class Holder(msgspec.Struct, frozen=True):
    """Who holds the lock. Times are milliseconds since 1970."""

    host: str
    pid: int
    incarnation: str
    started: int
    beat: int

    @property
    def is_gone(self) -> bool:
        """Whether the holder is a dead process of this host, or one whose heart has stopped."""
        return now() - self.beat > STALE_MILLISECONDS or (self.host == socket.gethostname() and not self._runs)

    @property
    def _runs(self) -> bool:
        if self.pid == os.getpid():
            return self.incarnation == _INCARNATION
        if os.name != "posix":
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


class Lock:
    """A lock that is held."""

    def __init__(self, client: AsyncElasticsearch, index: str) -> None:
        """Describe this process."""
        self._client = client
        self._index = index
        self._version: dict[str, Any] = {}
        self._beating = asyncio.Lock()
        self._holder = Holder(socket.gethostname(), os.getpid(), _INCARNATION, now(), now())

    async def acquire(self) -> None:
        """Take the lock, from a holder that is gone if need be; raise LockedError naming a holder that is not."""
        try:
            await self._write(op_type="create")
        except ConflictError:
            await self._take_over()

    async def _take_over(self) -> None:
        try:
            answer = await self._client.get(index=self._index, id=LOCK_ID)
        except NotFoundError:
            raise LockedError("Another run has just held the lock: try again.") from None
        holder = msgspec.convert(answer["_source"], Holder)
        if not holder.is_gone:
            raise _locked(holder)
        try:
            await self._write(**_condition(answer))
        except ConflictError:
            raise LockedError("Another run has just taken over the lock: try again later.") from None

    async def _write(self, **condition: Any) -> None:
        self._holder = msgspec.structs.replace(self._holder, beat=now())
        document = msgspec.to_builtins(self._holder)
        answer = await self._client.index(index=self._index, id=LOCK_ID, document=document, refresh=True, **condition)
        self._version = _condition(answer)

    async def verify(self) -> None:
        """Beat, and raise LockedError where another run has taken over since this one seemed dead."""
        async with self._beating:
            try:
                await self._write(**self._version)
            except (ConflictError, NotFoundError):
                if not await self._is_ours():
                    raise LockedError("The lock was lost to another run: nothing more was changed.") from None

    async def _is_ours(self) -> bool:
        """Read who holds the lock: the answer to an earlier beat may have been lost."""
        try:
            answer = await self._client.get(index=self._index, id=LOCK_ID)
        except NotFoundError:
            return False
        holder = msgspec.convert(answer["_source"], Holder)
        self._version = _condition(answer)
        return (holder.incarnation, holder.started) == (self._holder.incarnation, self._holder.started)

    async def beat(self) -> None:
        """Keep the lock for as long as the task runs; a heartbeat that fails is tried again at the next."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            with suppress(ApiError, TransportError, LockedError):
                await self.verify()

    async def release(self) -> None:
        """Give the lock back; one that another run has taken over is left to it."""
        with suppress(ApiError, TransportError):
            if await self._is_ours():
                await self._client.delete(index=self._index, id=LOCK_ID, **self._version)


def _condition(answer: Any) -> dict[str, int]:
    return {"if_seq_no": answer["_seq_no"], "if_primary_term": answer["_primary_term"]}


def _locked(holder: Holder) -> LockedError:
    since = dt.datetime.fromtimestamp(holder.started // 1000, dt.UTC).isoformat()
    return LockedError(f"Process {holder.pid} on {holder.host} has held the lock since {since}: wait for its end.")


@asynccontextmanager
async def locked(client: AsyncElasticsearch, control_index: str) -> AsyncIterator[Lock]:
    """Hold the lock of a control index, which is created if need be."""
    await ensure_index(client, control_index, CONTROL_BODY)
    lock = Lock(client, control_index)
    await lock.acquire()
    heart = asyncio.create_task(lock.beat())
    try:
        yield lock
    finally:
        heart.cancel()
        with suppress(asyncio.CancelledError):
            await heart
        await lock.release()
