"""Waiting for something to be published: marks are read twice a second while anybody waits, once for all who do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.control import Mark
    from mappings.resource import Resource
    from service.freshness import Kept

_SECONDS = 0.5


class News:
    """The marks of one process, as those see them who wait for a change."""

    def __init__(self, marks: Mapping[Resource, Kept[Mark | None]]) -> None:
        """Read nothing before anybody waits."""
        self._marks = marks
        self._reading: asyncio.Task[None] | None = None
        self.is_over = False  # nobody waits any more: the process stops

    async def wait(self, seconds: float) -> None:
        """Return when the marks have been read once more, or after `seconds` if that is sooner."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        # Who leaves must not cancel what others wait for.
        await asyncio.wait([self._reading], timeout=seconds)

    async def _read(self) -> None:
        try:
            await asyncio.sleep(_SECONDS)
            await asyncio.gather(*(mark.renew() for mark in self._marks.values()))
        finally:
            self._reading = None

    async def close(self) -> None:
        """Let nobody wait any longer."""
        self.is_over = True
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
