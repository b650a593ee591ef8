"""What requests for changes share: pages that many ask for at the same time, and one poll of the marks.

Marks are read twice a second while requests wait, once for all of them.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, Generic, Protocol, TypeVar

from cluster.control_index import Mark
from mappings.resource import Resource
from service.search.cached_value import CachedValue
from service.search.engine import SingleFlight
from service.telemetry.observation import SHARED_SEARCHES
from service.token import FeedPosition, FeedPositions

# Of the objects of a page.
_OVERHEAD_BYTES = 2048


@dataclass
class ChangesPage:
    """The encoded changes of one page, and the positions after them; requests share it, so none may change it."""

    positions: FeedPositions
    entries: list[bytes] = field(default_factory=list)
    at_end: bool = True

    @property
    def memory_bytes(self) -> int:
        """About how much memory the page takes."""
        return _OVERHEAD_BYTES + sum(map(len, self.entries))


# A herd of readers asks for a few different pages. Each is kept until it is the least recently used one.
_MAX_BYTES = 16 * 1024**2


class SharedPage(Protocol):
    """A page that several requests may use, and none may change."""

    @property
    def memory_bytes(self) -> int:
        """About how much memory it takes."""


Page = TypeVar("Page", bound=SharedPage)


class SharedPages(Generic[Page]):
    """Pages by everything that determines them, which includes the state of the index: an entry is never stale."""

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        """Start empty; keep at most `max_bytes`, and no page of more than half as many."""
        self._max_bytes = max_bytes
        self._pages: OrderedDict[Hashable, Page] = OrderedDict()
        self._reading: SingleFlight[Page] = SingleFlight(SHARED_SEARCHES.inc, inf)
        self.kept_bytes = 0

    async def get(self, key: Hashable, read: Callable[[], Coroutine[Any, Any, Page]]) -> Page:
        """Return the page with this key, which is read at most once at a time; raise what `read` raises."""
        if (page := self._pages.get(key)) is None:
            return await self._reading.run(key, partial(self._read, key, read))
        SHARED_SEARCHES.inc()
        self._pages.move_to_end(key)
        return page

    async def _read(self, key: Hashable, read: Callable[[], Coroutine[Any, Any, Page]]) -> Page:
        page = await read()
        if key not in self._pages and page.memory_bytes <= self._max_bytes // 2:
            self._pages[key] = page
            self.kept_bytes += page.memory_bytes
        while self.kept_bytes > self._max_bytes:
            _, oldest = self._pages.popitem(last=False)
            self.kept_bytes -= oldest.memory_bytes
        return page


# The positions of requests that can be compared with the marks together.
_SleepersKey = tuple[tuple[Resource, FeedPosition], ...]

_POLL_SECONDS = 0.5
# Requests woken before other requests get a turn of the event loop.
_WOKEN_AT_ONCE = 64


class ChangeNotifier:
    """Wakes the waiting requests of one process when the mark of a resource that they wait for has moved."""

    def __init__(self, marks: Mapping[Resource, CachedValue[Mark | None]]) -> None:
        """Start no polling until the first request waits."""
        self._marks = marks
        # Requests asleep, by position and in order of arrival.
        self._asleep: dict[_SleepersKey, dict[asyncio.Future[bool], None]] = {}
        self._polling: asyncio.Task[None] | None = None
        self.is_closed = False  # the process is shutting down

    @property
    def waiting(self) -> int:
        """The number of requests asleep."""
        return sum(map(len, self._asleep.values()))

    async def wait(self, positions: FeedPositions, seconds: float) -> bool:
        """Return True once a mark has moved past its position, or cannot be read.

        False after `seconds`, or when the process stops.
        """
        key = tuple(positions.items())
        if self._has_moved(key) or self.is_closed:
            return not self.is_closed
        sleeper: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._asleep.setdefault(key, {})[sleeper] = None
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll())
        try:
            async with asyncio.timeout(seconds):
                return await sleeper
        except TimeoutError:
            return False
        finally:
            self._forget(key, sleeper)

    def _forget(self, key: _SleepersKey, sleeper: asyncio.Future[bool]) -> None:
        if (sleepers := self._asleep.get(key)) is not None:
            sleepers.pop(sleeper, None)
            if not sleepers:
                del self._asleep[key]

    def _has_moved(self, key: _SleepersKey) -> bool:
        return any(_is_behind(position, self._marks[resource]) for resource, position in key)

    async def _poll(self) -> None:
        compared: list[Mark | None] = []
        try:
            while self._asleep:
                await asyncio.sleep(_POLL_SECONDS)
                awaited = {resource for key in self._asleep for resource, _ in key}
                await asyncio.gather(*(self._marks[resource].refresh() for resource in awaited))
                current = [None if mark.is_outdated else mark.current for mark in self._marks.values()]
                if current != compared:
                    await self._wake()
                compared = current
        finally:
            self._polling = None

    async def _wake(self) -> None:
        """Wake the requests behind a mark, in order of arrival."""
        moved = [sleeper for key, sleepers in self._asleep.items() if self._has_moved(key) for sleeper in sleepers]
        for number, sleeper in enumerate(moved, start=1):
            if not sleeper.done():
                sleeper.set_result(True)
            if not number % _WOKEN_AT_ONCE:
                await asyncio.sleep(0)

    async def close(self) -> None:
        """Stop polling and wake all waiting requests."""
        self.is_closed = True
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.wait([self._polling])
        for sleepers in self._asleep.values():
            for sleeper in sleepers:
                if not sleeper.done():
                    sleeper.set_result(False)


def _is_behind(position: FeedPosition, cached: CachedValue[Mark | None]) -> bool:
    return cached.is_outdated or (cached.current is not None and position.is_behind(cached.current))
