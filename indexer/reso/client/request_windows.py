"""How many requests and bytes the last seconds, minutes and hours had, so that no limit of a source is exceeded."""

import time
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from indexer.reso.client.source_limits import LimitWindow

# Requests are counted by slots of so many seconds. A slot counts until its end has left the window.
_SLOT_SECONDS = 5
# A window of so few seconds is counted exactly, and not kept: after a restart it counts as used up at the start.
_EXACT_SECONDS = 1


class SlotCount(NamedTuple):
    """What one slot had: `number` is its begin in seconds since 1970, divided by the length of a slot."""

    number: int
    requests: int
    bytes: int


class CountStore(Protocol):
    """Keeps counts across restarts."""

    def load(self) -> Iterable[SlotCount]:
        """Return the counts of earlier runs, ascending."""
        ...

    def add(self, count: SlotCount, forget_below: int) -> None:
        """Add to the count of a slot, and delete the slots below a number."""
        ...


class RequestWindows:
    """The requests of one source within all of its limits.

    A request counts from its begin until its end has left the window: when the source counts it is unknown, but it is
    in between.
    """

    def __init__(self, limits: Iterable[LimitWindow], store: CountStore | None = None) -> None:
        """Continue the counts of earlier runs."""
        given = list(limits)
        self._exact = [each for each in given if each.seconds <= _EXACT_SECONDS]
        self._long = [each for each in given if each.seconds > _EXACT_SECONDS]
        self._store = store if self._long else None
        self._ended: deque[float] = deque()  # on the monotonic clock
        self._running = 0
        self._slots: dict[int, list[int]] = {}
        for slot in self._store.load() if self._store else ():
            self._slots[slot.number] = [slot.requests, slot.bytes]
        if any(_is_within(number, _EXACT_SECONDS, time.time()) for number in self._slots):
            self._ended.extend([time.monotonic()] * max((each.requests or 0 for each in self._exact), default=0))

    def wait_seconds(self) -> tuple[float, LimitWindow | None]:
        """Return how long the next request has to wait at least, and for which limit; 0 if it need not."""
        waits = [(self._exact_wait(each), each) for each in self._exact]
        waits += [(self._long_wait(each), each) for each in self._long]
        longest = max(waits, key=lambda each: each[0], default=None)
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
        number, longest = int(now // _SLOT_SECONDS), max(each.seconds for each in self._long)
        slot = self._slots.setdefault(number, [0, 0])
        slot[0], slot[1] = slot[0] + requests, slot[1] + received
        for old in [each for each in self._slots if not _is_within(each, longest, now)]:
            del self._slots[old]
        if self._store is not None:
            self._store.add(SlotCount(number, requests, received), forget_below=min(self._slots))


def _is_within(number: int, seconds: int, now: float) -> bool:
    """Whether a slot is in a window; one in the future was counted under a clock that was ahead."""
    return (number + 1) * _SLOT_SECONDS + seconds > now and number * _SLOT_SECONDS <= now + _SLOT_SECONDS


def _allows(limit: LimitWindow, requests: int, received: int) -> bool:
    return (limit.requests is None or requests < limit.requests) and (limit.bytes is None or received < limit.bytes)
