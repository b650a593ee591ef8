"""The limits of a source: requests and bytes in any second, minute, hour and day, and a steady rate below them."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec

from indexer.reso.mirror import RequestCounts, SlotCount
from indexer.reso.settings import ResoSettings

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_MIB = 1024**2


class LimitWindow(NamedTuple):
    """At most so many requests, or bytes, in any so many seconds; `name` is what an operator calls it."""

    name: str
    seconds: int
    requests: int | None = None
    bytes: int | None = None


class SourceLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of a source, `[dialect.limits]` in its map; 0: none."""

    requests_per_second: int = 0
    requests_per_minute: int = 0
    requests_per_hour: int = 0
    requests_per_day: int = 0
    mib_per_hour: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for a negative limit."""
        for name in self.__struct_fields__:
            if getattr(self, name) < 0:
                raise ValueError(f"{name} = {getattr(self, name)} cannot be used: it must be at least 0")

    def overridden(self, settings: ResoSettings) -> SourceLimits:
        """Return the limits with those that the settings give instead."""
        return msgspec.structs.replace(
            self,
            requests_per_hour=settings.hourly_requests or self.requests_per_hour,
            requests_per_day=settings.daily_requests or self.requests_per_day,
            mib_per_hour=settings.hourly_mib or self.mib_per_hour,
        )

    def windows(self) -> Iterator[LimitWindow]:
        for unit, seconds in (("second", 1), ("minute", _MINUTE), ("hour", _HOUR), ("day", _DAY)):
            if count := getattr(self, f"requests_per_{unit}"):
                yield LimitWindow(f"{count:,} requests per {unit}", seconds, requests=count)
        if self.mib_per_hour:
            yield LimitWindow(f"{self.mib_per_hour:,} MiB per hour", _HOUR, bytes=self.mib_per_hour * _MIB)


# Requests are counted by slots of so many seconds. A slot counts until its end has left the window.
_SLOT_SECONDS = 5
# A window of so few seconds is counted exactly, and not kept: after a restart it counts as used up at the start.
_EXACT_SECONDS = 1


class RequestWindows:
    """The requests of one source within all of its limits.

    A request counts from its begin until its end has left the window: when the source counts it is unknown, but it is
    in between.
    """

    def __init__(self, limits: Iterable[LimitWindow], store: RequestCounts | None = None) -> None:
        given = list(limits)
        self._exact = [window for window in given if window.seconds <= _EXACT_SECONDS]
        self._long = [window for window in given if window.seconds > _EXACT_SECONDS]
        self._store = store if self._long else None
        self._ended: deque[float] = deque()  # on the monotonic clock
        self._running = 0
        self._slots: dict[int, list[int]] = {}
        for slot in self._store.load() if self._store else ():
            self._slots[slot.number] = [slot.requests, slot.bytes]
        if any(_is_within(number, _EXACT_SECONDS, time.time()) for number in self._slots):
            self._ended.extend([time.monotonic()] * max((window.requests or 0 for window in self._exact), default=0))

    def wait_seconds(self) -> tuple[float, LimitWindow | None]:
        """Return how long the next request has to wait at least, and for which limit; 0 if it need not."""
        waits = [(self._exact_wait(window), window) for window in self._exact]
        waits += [(self._long_wait(window), window) for window in self._long]
        longest = max(waits, key=lambda wait: wait[0], default=None)
        return (0.0, None) if longest is None or longest[0] <= 0 else longest

    def _exact_wait(self, limit: LimitWindow) -> float:
        now = time.monotonic()
        while self._ended and self._ended[0] <= now - limit.seconds:
            self._ended.popleft()
        surplus = self._running + len(self._ended) + 1 - (limit.requests or 0)
        if surplus <= 0:
            return 0.0
        # When requests in flight will end is unknown.
        return self._ended[surplus - 1] + limit.seconds - now if surplus <= len(self._ended) else 0.05

    def _long_wait(self, limit: LimitWindow) -> float:
        now = time.time()
        within = sorted(number for number in self._slots if _is_within(number, limit.seconds, now))
        requests = sum(self._slots[number][0] for number in within)
        received = sum(self._slots[number][1] for number in within)
        for number in within:
            if _allows(limit, requests, received):
                break
            requests, received = requests - self._slots[number][0], received - self._slots[number][1]
            free_at = (number + 1) * _SLOT_SECONDS + limit.seconds
            if _allows(limit, requests, received):
                return free_at - now
        return 0.0

    def begin(self) -> None:
        """Count a request that is about to be sent."""
        self._running += 1
        self._count(1, 0)

    def end(self, received: int) -> None:
        """Count the bytes of a request that has ended."""
        self._running -= 1
        if self._exact:
            self._ended.append(time.monotonic())
        self._count(0, received)

    def _count(self, requests: int, received: int) -> None:
        if not self._long:
            return
        now = time.time()
        number, longest = int(now // _SLOT_SECONDS), max(window.seconds for window in self._long)
        slot = self._slots.setdefault(number, [0, 0])
        slot[0], slot[1] = slot[0] + requests, slot[1] + received
        for old in [slot_number for slot_number in self._slots if not _is_within(slot_number, longest, now)]:
            del self._slots[old]
        if self._store is not None:
            self._store.add(SlotCount(number, requests, received), forget_below=min(self._slots))


def _is_within(number: int, seconds: int, now: float) -> bool:
    """Whether a slot is in a window; one in the future was counted under a clock that was ahead."""
    return (number + 1) * _SLOT_SECONDS + seconds > now and number * _SLOT_SECONDS <= now + _SLOT_SECONDS


def _allows(limit: LimitWindow, requests: int, received: int) -> bool:
    return (limit.requests is None or requests < limit.requests) and (limit.bytes is None or received < limit.bytes)


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
