"""Locks that let one run at a time do something: documents with a heartbeat in the control index, one per name."""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from elasticsearch import ApiError, ConflictError, NotFoundError, TransportError

from cluster.control import CONTROL_BODY, ensure_index
from indexer.errors import LockedError
from indexer.lock_document import Place, State
from indexer.lock_wait import Acquired, Wait

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from elasticsearch import AsyncElasticsearch

HEARTBEAT_SECONDS = 5.0
# A beat without an answer for as long is given up for the next one, or silence would look like death.
_BEAT_LIMIT_SECONDS = 10.0
# A wish is renewed each second; one that has not moved for as long was left behind by a run that was killed.
_WISH_SECONDS = 3.0


class Lock:
    """A lock that is held.

    `token` rises with every acquisition and is never used again. `opaque_id` names this holding in requests
    (X-Opaque-Id). `inherited` is the `opaque_id` of the holder before if it went without releasing, else None.
    """

    def __init__(self, place: Place, acquired: Acquired) -> None:
        """Hold what was acquired."""
        self._place = place
        self._found = acquired.found
        self._state = acquired.found.state
        self._beating = asyncio.Lock()
        self._wish: int | None = None
        self._wish_moved = 0.0
        self.inherited = acquired.inherited

    @property
    def token(self) -> int:
        """The number of this holding."""
        return self._state.token

    @property
    def opaque_id(self) -> str:
        """The mark of this holding."""
        return self._state.holder.opaque_id if self._state.holder else ""

    async def verify(self) -> None:
        """Beat, and raise LockedError where another run has taken over since this one seemed dead."""
        async with self._beating:
            try:
                self._found = await self._place.write(self._state, self._found)
            except (ConflictError, NotFoundError):
                if not await self._is_ours():
                    raise LockedError("The lock was lost to another run: nothing more was changed.") from None

    async def is_wanted(self) -> bool:
        """Whether another run waits for this lock. The wish of one that was killed counts for seconds at most."""
        wish, at = await self._place.wished(), time.monotonic()
        if wish != self._wish:
            self._wish, self._wish_moved = wish, at
        return wish is not None and at < self._wish_moved + _WISH_SECONDS

    async def beat(self) -> None:
        """Keep the lock for as long as the task runs; a heartbeat that fails is tried again at the next."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            with suppress(ApiError, TransportError, LockedError, TimeoutError):
                async with asyncio.timeout(_BEAT_LIMIT_SECONDS):
                    await self.verify()

    async def release(self) -> None:
        """Give the lock back; one that another run has taken over is left to it."""
        with suppress(ApiError, TransportError):
            if await self._is_ours():
                await self._place.write(State(self.token, None), self._found)

    async def _is_ours(self) -> bool:
        """Read who holds the lock: the answer to an earlier beat may have been lost."""
        found = await self._place.read()
        if found is None or found.state != self._state:
            return False
        self._found = found
        return True


def say_nothing(_sentence: str) -> None:
    """Tell nobody of a wait."""


@asynccontextmanager
async def locked(
    client: AsyncElasticsearch,
    control_index: str,
    name: str = "run",
    *,
    wait_seconds: float = 30.0,
    on_wait: Callable[[str], None] = say_nothing,
) -> AsyncIterator[Lock]:
    """Hold the lock of a name, whose control index is created if need be.

    The lock of a dead process of this host is taken over at once. Any other holder is waited for, `wait_seconds` at
    most, and taken over when it has been silent for SILENT_SECONDS; `on_wait` gets a sentence about it now and then.
    Raises LockedError naming a holder that still has the lock at the end.
    """
    await ensure_index(client, control_index, CONTROL_BODY)
    place = Place(client, control_index, name)
    lock = Lock(place, await Wait(place, secrets.token_hex(8), wait_seconds, on_wait).over())
    heart = asyncio.create_task(lock.beat())
    try:
        yield lock
    finally:
        heart.cancel()
        with suppress(asyncio.CancelledError):
            await heart
        await lock.release()
