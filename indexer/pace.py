"""How much is asked of the engine at once: half as much after an overload, slowly more while nothing disturbs.

Additive increase and multiplicative decrease, as TCP does it: it ends near what the engine takes, whatever that is.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from indexer.bulk import Write
    from indexer.settings import IndexerSettings

_LEAST_DOCUMENTS = 10
_LEAST_BYTES = 100_000
_WHOLE = 1024  # the share that stands for the settings themselves
_STEP = 51  # of the whole: 20 steps lead from nothing to everything
_UNDISTURBED = 20  # requests between two steps


class Pace:
    """The limits of bulk requests, shared by everything that one run sends.

    They start at the settings and never exceed them; nor do they fall below 10 documents and 100 kB in one request,
    and one request in flight.
    """

    def __init__(self, settings: IndexerSettings) -> None:
        """Start at the settings."""
        self._settings = settings
        self._share = _WHOLE
        self._undisturbed = 0
        self._halvings = 0
        self._running = 0
        self._changed = asyncio.Event()
        self.retries = 0  # requests that were sent again

    @property
    def documents(self) -> int:
        """Documents in one request, at most."""
        return self._part(self._settings.bulk_documents, _LEAST_DOCUMENTS)

    @property
    def bytes(self) -> int:
        """Source bytes in one request, at most; a larger document goes alone."""
        return self._part(self._settings.bulk_bytes, _LEAST_BYTES)

    @property
    def in_flight(self) -> int:
        """Requests under way together, at most."""
        return self._part(self._settings.bulks_in_flight, 1)

    def _part(self, setting: int, least: int) -> int:
        return max(min(setting, least), setting * self._share // _WHOLE)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[int]:
        """Wait for a place among the requests in flight; the number given is for `overloaded`."""
        while self._running >= self.in_flight:
            self._changed.clear()
            await self._changed.wait()
        self._running += 1
        try:
            yield self._halvings
        finally:
            self._running -= 1
            self._changed.set()

    def fitting(self, writes: Sequence[Write]) -> int:
        """Return how many of the first writes make one request, at least one."""
        room, most = self.bytes, self.documents
        for count, write in enumerate(islice(writes, most)):
            room -= len(write.source)
            if room < 0 and count:
                return count
        return min(len(writes), most)

    def overloaded(self, slot: int) -> None:
        """Ask for half as much, but once only for all requests that were under way together."""
        self._undisturbed = 0
        if slot == self._halvings:
            self._halvings += 1
            self._share //= 2

    def undisturbed(self) -> None:
        """Count a request that was answered without complaint; after enough of them ask for a little more."""
        self._undisturbed += 1
        if self._undisturbed >= _UNDISTURBED:
            self._undisturbed = 0
            self._share = min(_WHOLE, self._share + _STEP)
            self._changed.set()
