"""How fast a source is asked: a steady rate, and a pause for all when the source asks for one."""

from __future__ import annotations

import asyncio
import time


class Rate:
    """Gives out turns, so many a second; what was not used is not saved up."""

    def __init__(self, a_second: float) -> None:
        """The first turn is free at once."""
        self._gap = 1 / a_second
        self._next = 0.0
        self._order = asyncio.Lock()

    async def turn(self) -> None:
        """Wait for a turn; who came first goes first."""
        async with self._order:
            while (wait := self._next - time.monotonic()) > 0:  # noqa: ASYNC110 - the pause may grow meanwhile
                await asyncio.sleep(wait)
            self._next = time.monotonic() + self._gap

    def hold(self, seconds: float) -> None:
        """Let nobody ask for so long."""
        self._next = max(self._next, time.monotonic() + seconds)
