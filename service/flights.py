"""One search for all who ask the same at the same time, and one that is begun for who is about to ask."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable

Answer = TypeVar("Answer")


@dataclass
class _Flight(Generic[Answer]):
    task: asyncio.Task[Answer]
    begun: float  # by the loop's clock, in seconds
    passengers: int = 0
    is_ahead: bool = False  # begun before anybody asked: its answer waits a moment for who will


class Flights(Generic[Answer]):
    """Work under way, by what it answers. Nothing is kept once it is done: who comes later asks anew.

    The exception is work that was begun ahead: its answer waits a moment for the one who comes for it first.

    A request that joins sees the state of when the flight began, which is before it came, by `oldest` seconds at most.
    Whatever must not be older than something the request has read has to be part of the key.
    """

    def __init__(self, on_shared: Callable[[], None], oldest: float) -> None:
        """Begin with nothing under way; `on_shared` is called for each request that begins no work of its own."""
        self._on_shared = on_shared
        self._oldest = oldest
        self._flights: dict[Hashable, _Flight[Answer]] = {}

    async def join(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """Return what `work` returns or raises; only the first of those who ask for the same key at once begins it.

        A request that is cancelled leaves the others their answer; the work is cancelled with the last of them.
        """
        flight = self._flights.get(key)
        if flight is None or asyncio.get_running_loop().time() - flight.begun > self._oldest:
            flight = self._begin(key, work)
        elif not flight.is_ahead:
            self._on_shared()
        flight.is_ahead = False
        flight.passengers += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.passengers -= 1
            if not flight.passengers:
                self._ended(key, flight)
                flight.task.cancel()

    def begin_ahead(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Answer]]) -> None:
        """Begin what is likely to be asked for next, unless anything else is under way; keep it until it is too old."""
        if any(not flight.task.done() for flight in self._flights.values()):
            return
        flight = self._begin(key, work)
        flight.is_ahead = True
        asyncio.get_running_loop().call_later(self._oldest, self._expired, key, flight)

    def _expired(self, key: Hashable, flight: _Flight[Answer]) -> None:
        if flight.is_ahead:
            self._ended(key, flight)
            flight.task.cancel()

    def _begin(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Answer]]) -> _Flight[Answer]:
        flight = self._flights[key] = _Flight(asyncio.create_task(work()), asyncio.get_running_loop().time())
        flight.task.add_done_callback(partial(self._landed, key, flight))
        return flight

    def _landed(self, key: Hashable, flight: _Flight[Answer], task: asyncio.Task[Answer]) -> None:
        # Who asked may all have left: a failure that nobody hears of is none.
        has_failed = task.cancelled() or task.exception() is not None
        if has_failed or not flight.is_ahead:
            self._ended(key, flight)

    def _ended(self, key: Hashable, flight: _Flight[Answer]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
