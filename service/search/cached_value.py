"""Values read from Elasticsearch and cached for a few seconds: refreshed in the background, kept during an outage."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from service.errors import ApiError, EngineUnavailable
from service.settings import ServiceSettings

Value = TypeVar("Value")


_log = logging.getLogger("service")
# How long a request to the private port waits for fresh values: it must succeed while Elasticsearch is down.
_REFRESH_TIMEOUT_SECONDS = 1.0


@dataclass(frozen=True)
class CacheAges:
    """Ages at which a value is refreshed in the background, and at which a request waits for the refresh."""

    fresh_seconds: float
    stale_seconds: float

    @classmethod
    def of(cls, settings: ServiceSettings) -> Self:
        return cls(settings.fresh_seconds, settings.stale_seconds)

    @classmethod
    def of_keys(cls, settings: ServiceSettings) -> Self:
        """Return ages that leave time, within `revocation_seconds`, for two reads and a check of all connections."""
        most = settings.revocation_seconds
        return cls(min(settings.fresh_seconds, 0.4 * most), min(settings.stale_seconds, 0.8 * most))


class CachedValue(Generic[Value]):
    """A value and the time of its read; concurrent requests share one refresh."""

    def __init__(self, load: Callable[[], Awaitable[Value]], ages: CacheAges, settle_seconds: float = 0.0) -> None:
        """Read the value with `load` on first use; `settle_seconds` is the minimum age for `settled`."""
        self._load = load
        self._ages = ages
        self.current: Value | None = None  # as last read, however old it is; None before the first read
        self._read_at = float("-inf")
        self._settle_seconds = settle_seconds
        self._reads: deque[tuple[float, Value]] = deque()  # the newest settled one, and all since
        self._failure: ApiError | None = None
        self._refresh_task: asyncio.Task[None] | None = None

    def raise_failure(self) -> None:
        """Raise the ApiError of the last refresh, if it failed."""
        if self._failure is not None:
            raise self._failure

    async def get(self) -> Value:
        """Return the value, at most `stale_seconds` old unless Elasticsearch is unavailable."""
        age = time.monotonic() - self._read_at
        if age >= self._ages.fresh_seconds:
            self._start_refresh()
        if age >= self._ages.stale_seconds and self._refresh_task is not None:
            # Other requests may wait for the same refresh: a client that disconnects must not cancel it.
            await asyncio.shield(self._refresh_task)
        if self._failure is not None and self._read_at == float("-inf"):
            raise self._failure
        return self.current  # type: ignore[return-value]  # read at least once by now

    @property
    def is_outdated(self) -> bool:
        """Whether the value could not be refreshed when it was due."""
        return self._failure is not None and time.monotonic() - self._read_at >= self._ages.stale_seconds

    async def get_renewed(self) -> Value:
        """Return the value, at most `stale_seconds` old; raise the failure of its refresh."""
        value = await self.get()
        if self.is_outdated:
            self.raise_failure()
        return value

    async def refreshed(self) -> Value:
        """Return the value as read now; raise the failure."""
        await self.refresh()
        self.raise_failure()
        return self.current  # type: ignore[return-value]  # read just now

    async def refresh(self) -> None:
        """Read the value again now, however old it is; keep it if that fails."""
        # A refresh that is already running may have read a state before this call.
        if self._refresh_task is not None:
            await asyncio.shield(self._refresh_task)
        await asyncio.shield(self._start_refresh())

    def _start_refresh(self) -> asyncio.Task[None]:
        if self._refresh_task is None:
            self._refresh_task = asyncio.create_task(self._refresh())
        return self._refresh_task

    async def settled(self, *, everywhere: bool = False) -> Value:
        """Return the newest value that was read at least `settle_seconds` ago; wait if there is none yet.

        A response of any other process that is at most that old was started after this value was read. `everywhere` is
        for values that the others use as well: they may be outdated by `stale_seconds`.
        """
        await self.get()
        seconds = self._settle_seconds + (self._ages.stale_seconds if everywhere else 0.0)
        if (wait := self._reads[0][0] + seconds - time.monotonic()) > 0:
            await asyncio.sleep(wait)
            return await self.settled(everywhere=everywhere)  # uvloop may wake up a fraction of a millisecond early
        settled_at = time.monotonic() - seconds
        settled = self._reads[0][1]
        for read_at, value in self._reads:
            if read_at > settled_at:
                break
            settled = value
        return settled

    def _drop_superseded(self) -> None:
        settled_at = time.monotonic() - self._settle_seconds - self._ages.stale_seconds
        while len(self._reads) > 1 and self._reads[1][0] <= settled_at:
            self._reads.popleft()

    async def _refresh(self) -> None:
        started = time.monotonic()
        try:
            self.current = await self._load()
            self._read_at, self._failure = started, None
            self._reads.append((started, self.current))
            self._drop_superseded()
        except ApiError as failure:
            self._fail(failure)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            # A response that makes no sense must not end a task that refreshes values for ever.
            self._fail(EngineUnavailable(f"{type(error).__name__}: {error}"))
        finally:
            self._refresh_task = None

    def _fail(self, failure: ApiError) -> None:
        if self._failure is None:
            _log.warning("a cached value could not be refreshed: %s", getattr(failure, "reason", failure))
        self._failure = failure


async def refresh_all(values: Iterable[CachedValue[Any]]) -> None:
    """Refresh values that are not fresh, within a second; keep them while Elasticsearch is unavailable."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_REFRESH_TIMEOUT_SECONDS):
            await asyncio.gather(*(value.get() for value in values), return_exceptions=True)
