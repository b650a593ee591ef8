"""Long polling for published changes: marks are read twice a second while requests wait, once for all of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.control_index import Mark
    from mappings.resource import Resource
    from service.search.cached_value import CachedValue

_POLL_SECONDS = 0.5


class ChangeNotifier:
    """Wakes the waiting requests of one process after each poll of the marks."""

    def __init__(self, marks: Mapping[Resource, CachedValue[Mark | None]]) -> None:
        """Start no polling until the first request waits."""
        self._marks = marks
        self._reading: asyncio.Task[None] | None = None
        self.is_closed = False  # the process is shutting down

    async def wait(self, seconds: float) -> None:
        """Return after the next poll of the marks, or after `seconds` if that is sooner."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        # A request that stops waiting must not cancel the poll for the others.
        await asyncio.wait([self._reading], timeout=seconds)

    async def _read(self) -> None:
        try:
            await asyncio.sleep(_POLL_SECONDS)
            await asyncio.gather(*(mark.refresh() for mark in self._marks.values()))
        finally:
            self._reading = None

    async def close(self) -> None:
        """Stop polling and wake all waiting requests."""
        self.is_closed = True
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
