"""Pages that many readers ask for at the same time: read and encoded once for all of them."""

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from math import inf
from typing import Any, Generic, Protocol, TypeVar

from service.search.sharing import SingleFlight
from service.telemetry.counters import SHARED_SEARCHES

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
