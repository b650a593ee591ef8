"""Adaptive limits of bulk requests: halved after an overload, raised slowly while requests succeed.

Additive increase and multiplicative decrease, as in TCP, converge near the capacity of the cluster.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import islice

from indexer.settings import IndexerSettings

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
        """The maximum number of documents in one request."""
        return self._part(self._settings.bulk_documents, _MIN_DOCUMENTS)

    @property
    def bytes(self) -> int:
        """The maximum source bytes in one request; a larger document is sent alone."""
        return self._part(self._settings.bulk_bytes, _MIN_BYTES)

    @property
    def in_flight(self) -> int:
        """The maximum number of concurrent requests."""
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
