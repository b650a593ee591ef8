"""Waiting for a lock: who holds it is watched, and a holder that is gone is taken over.

The clocks of two hosts are never compared. What tells a living holder is that its document moves: each beat raises the
document's sequence number, and silence is measured by the monotonic clock of the one who watches.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from elasticsearch import ApiError, ConflictError, TransportError

from indexer.clocks import now
from indexer.errors import LockedError
from indexer.lock_document import INCARNATION, Found, Holder, State
from indexer.retry import patiently

if TYPE_CHECKING:
    from collections.abc import Callable

    from indexer.lock_document import Place

# Six beats: after that the holder has stopped, or is cut off from the engine.
SILENT_SECONDS = 30.0
_LOOK_SECONDS = 1.0
_TELL_SECONDS = 10.0
# For as long an engine that cannot be asked is no reason to end: the control index may have been created just now.
_AWAY_SECONDS = 10.0


class Acquired(NamedTuple):
    """The lock as it was written, and the mark of the holder that it was taken from, None if it was free."""

    found: Found
    inherited: str | None


class Wait:
    """One wait for a lock, of at most `seconds`, counted from the first look like the silence of the holder.

    So a holder that is silent throughout is taken over whenever `seconds` is not less than SILENT_SECONDS.
    """

    def __init__(self, place: Place, nonce: str, seconds: float, on_wait: Callable[[str], None]) -> None:
        """Nothing is looked at yet. `nonce` tells this acquisition from all others."""
        self._place = place
        self._nonce = nonce
        self._seconds = seconds
        self._on_wait = on_wait
        self._seen: int | None = None  # the sequence number of the latest beat
        self._since = 0.0  # when it was first seen
        self._began: float | None = None
        self._told: float | None = None
        self._looked = 0.0

    async def over(self) -> Acquired:
        """Return the lock once it is ours; raise LockedError naming the holder that still has it at the end."""
        try:
            while True:
                found = await self._look()
                holder = found.state.holder if found else None
                if holder is None or holder.is_dead or self._looked >= self._since + SILENT_SECONDS:
                    with suppress(ConflictError):
                        return await self._take(found, holder)
                elif self._looked >= self._end:
                    raise LockedError(f"{holder}: wait for its end.")
                else:
                    await self._pause(holder)
        finally:
            await self._unwish()

    async def _look(self) -> Found | None:
        """Read the lock. A look counts from when it was asked for: later than that nothing is known to be silent."""
        asked = time.monotonic()
        found = await patiently(self._place.read, _AWAY_SECONDS)
        if self._began is None or (found and found.seq_no != self._seen):
            self._seen, self._since = found.seq_no if found else None, time.monotonic()
            self._began = self._since if self._began is None else self._began
        self._looked = max(asked, self._since)
        return found

    @property
    def _end(self) -> float:
        return (self._began or 0.0) + self._seconds

    async def _take(self, found: Found | None, previous: Holder | None) -> Acquired:
        token = found.state.token + 1 if found else 1
        mark = f"brokerage-{self._place.name}-{token}-{self._nonce}"
        holder = Holder(socket.gethostname(), os.getpid(), INCARNATION, now(), mark)
        written = await self._place.write(State(token, holder), found)
        return Acquired(written, previous.opaque_id if previous else None)

    async def _pause(self, holder: Holder) -> None:
        """Tell who is waited for, make the wish known, and wait for the next look."""
        if self._told is None or self._looked >= self._told + _TELL_SECONDS:
            self._told = self._looked
            self._on_wait(f"{holder}: waiting for it, {self._end - self._looked:.0f} s more at most.")
        await self._place.wish()
        await asyncio.sleep(min(_LOOK_SECONDS, max(0.0, self._end - time.monotonic())))

    async def _unwish(self) -> None:
        if self._told is not None:
            with suppress(ApiError, TransportError):
                await self._place.unwish()
