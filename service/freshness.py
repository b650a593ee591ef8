"""Values read from Elasticsearch and kept for a few seconds: renewed in the background, kept through an outage."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from service.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Value = TypeVar("Value")

_log = logging.getLogger("service")


@dataclass(frozen=True)
class Ages:
    """Seconds after which a value is renewed in the background, and after which a request waits for a newer one."""

    fresh: float
    stale: float


class Kept(Generic[Value]):
    """One value with the time it was read at; concurrent requests share one renewal."""

    def __init__(self, load: Callable[[], Awaitable[Value]], ages: Ages, settled_seconds: float = 0.0) -> None:
        """Read the value with `load`, first when it is first asked for; `settled` is for what is older than that."""
        self._load = load
        self._ages = ages
        self._value: Value | None = None
        self._read_at = float("-inf")
        self._settled_seconds = settled_seconds
        self._read: deque[tuple[float, Value]] = deque()  # the last settled one, and what was read since
        self._failure: ApiError | None = None
        self._renewal: asyncio.Task[None] | None = None

    @property
    def current(self) -> Value | None:
        """The value as last read, however old it is; None before that."""
        return self._value

    async def get(self) -> Value:
        """Return the value, at most `ages.stale` seconds old unless Elasticsearch is away."""
        age = time.monotonic() - self._read_at
        if age >= self._ages.fresh:
            self._begin()
        if age >= self._ages.stale and self._renewal is not None:
            # Another request may wait for the same renewal: a client that leaves must not cancel it.
            await asyncio.shield(self._renewal)
        if self._failure is not None and self._read_at == float("-inf"):
            raise self._failure
        return self._value  # type: ignore[return-value]  # read at least once by now

    async def renew(self) -> None:
        """Read the value again now, however old it is; where that fails it stays."""
        # What is being read already may be older than this call. Who waits may leave: the renewal goes on.
        if self._renewal is not None:
            await asyncio.shield(self._renewal)
        await asyncio.shield(self._begin())

    def _begin(self) -> asyncio.Task[None]:
        if self._renewal is None:
            self._renewal = asyncio.create_task(self._renew())
        return self._renewal

    async def settled(self) -> Value:
        """Return the last value that was read at least `settled_seconds` ago, waiting where there is none yet.

        What every other process answers was begun after that, if it is no older.
        """
        await self.get()
        if (wait := self._read[0][0] + self._settled_seconds - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        self._forget()
        return self._read[0][1]

    def _forget(self) -> None:
        settled = time.monotonic() - self._settled_seconds
        while len(self._read) > 1 and self._read[1][0] <= settled:
            self._read.popleft()

    async def _renew(self) -> None:
        started = time.monotonic()
        try:
            self._value = await self._load()
            self._read_at, self._failure = started, None
            self._read.append((started, self._value))
            self._forget()
        except ApiError as failure:
            if self._failure is None:
                _log.warning("a cached value could not be renewed: %s", failure)
            self._failure = failure
        finally:
            self._renewal = None
