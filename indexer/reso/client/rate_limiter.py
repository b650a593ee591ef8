"""The rate limit on requests to a source."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from indexer.reso.client.request_windows import RequestWindows
from indexer.reso.client.source_limits import LimitWindow

# A shorter wait for a limit is not worth a message.
_REPORTED_SECONDS = 30.0


class SentRequest:
    """A request that was allowed; `received` is the number of bytes of its response."""

    received = 0


class SourceRateLimiter:
    """A steady rate without bursts, within the limits of the source: unused capacity does not accumulate."""

    def __init__(
        self,
        requests_per_second: float,
        windows: RequestWindows | None = None,
        on_wait: Callable[[str], None] = lambda _: None,
    ) -> None:
        """The first request may be sent at once."""
        self._interval_seconds = 1 / requests_per_second
        self._windows = windows or RequestWindows(())
        self._on_wait = on_wait
        self._next = 0.0  # on the monotonic clock
        self._queue = asyncio.Lock()
        self.held_seconds = 0.0  # spent waiting for a limit of the source

    @asynccontextmanager
    async def request(self) -> AsyncIterator[SentRequest]:
        """Wait until a request may be sent, first come, first served, and count it."""
        async with self._queue:
            await self._wait_for_limits()
            while (wait := self._next - time.monotonic()) > 0:  # noqa: ASYNC110 - a pause may extend it meanwhile
                await asyncio.sleep(wait)
            self._next = time.monotonic() + self._interval_seconds
            self._windows.begin()
        sent = SentRequest()
        try:
            yield sent
        finally:
            self._windows.end(sent.received)

    async def _wait_for_limits(self) -> None:
        is_reported, began = False, time.monotonic()
        while True:
            seconds, limit = self._windows.wait_seconds()
            if limit is None:
                break
            if seconds > _REPORTED_SECONDS and not is_reported:
                is_reported = True
                self._on_wait(_held_message(limit, seconds))
            await asyncio.sleep(seconds)
        self.held_seconds += time.monotonic() - began

    def pause(self, seconds: float) -> None:
        """Hold back all requests for some seconds."""
        self._next = max(self._next, time.monotonic() + seconds)


def _held_message(limit: LimitWindow, seconds: float) -> str:
    until = time.strftime("%H:%M", time.localtime(time.time() + seconds))
    return f"The limit of the source, {limit.name}, is used up: the next request is sent at {until}."
