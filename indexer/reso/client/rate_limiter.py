"""The rate limit on requests to a source."""

from __future__ import annotations

import asyncio
import time


class SourceRateLimiter:
    """A steady rate without bursts: unused capacity does not accumulate."""

    def __init__(self, requests_per_second: float) -> None:
        """The first request may be sent at once."""
        self._interval_seconds = 1 / requests_per_second
        self._next = 0.0  # on the monotonic clock
        self._queue = asyncio.Lock()

    async def acquire(self) -> None:
        """Wait until the next request may be sent, first come, first served."""
        async with self._queue:
            while (wait := self._next - time.monotonic()) > 0:  # noqa: ASYNC110 - a pause may extend it meanwhile
                await asyncio.sleep(wait)
            self._next = time.monotonic() + self._interval_seconds

    def pause(self, seconds: float) -> None:
        """Hold back all requests for some seconds."""
        self._next = max(self._next, time.monotonic() + seconds)
