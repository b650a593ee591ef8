"""How late the event loop is: work that holds it up holds up every request of the process."""

from __future__ import annotations

import asyncio

from service.telemetry.histogram import LAG_BOUNDS, Histogram

_PERIOD_SECONDS = 0.25


class LoopLag:
    """By how many seconds a timer came too late, tried four times a second."""

    def __init__(self) -> None:
        """Begin with no value."""
        self.seconds = Histogram(LAG_BOUNDS)

    async def run(self) -> None:
        """Try for ever."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _PERIOD_SECONDS
            await asyncio.sleep(_PERIOD_SECONDS)
            self.seconds.add(max(0.0, loop.time() - due))
