"""Event loop lag: work that blocks the loop delays every request of the process."""

import asyncio

from service.telemetry.histogram import LAG_BOUNDS, Histogram

_PERIOD_SECONDS = 0.25


class LoopLag:
    """How late a timer fires, in seconds, measured four times a second."""

    def __init__(self) -> None:
        """Start without values."""
        self.seconds = Histogram(LAG_BOUNDS)

    async def run(self) -> None:
        """Measure forever."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _PERIOD_SECONDS
            await asyncio.sleep(_PERIOD_SECONDS)
            self.seconds.add(max(0.0, loop.time() - due))
