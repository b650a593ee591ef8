"""One search for all who ask the same at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from service.metrics import SHARED_SEARCHES

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable

Answer = TypeVar("Answer")


@dataclass
class _Flight(Generic[Answer]):
    task: asyncio.Task[Answer]
    passengers: int = 0


class Flights(Generic[Answer]):
    """Work under way, by what it answers. Nothing is kept once it is done: who comes later asks anew.

    A request that joins sees the state of when the flight began, which is before it came. Whatever must not be older
    than something the request has read has to be part of the key.
    """

    def __init__(self) -> None:
        """Begin with nothing under way."""
        self._flights: dict[Hashable, _Flight[Answer]] = {}

    async def join(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """Return what `work` returns or raises; only the first of those who ask for the same key at once begins it.

        A request that is cancelled leaves the others their answer; the work is cancelled with the last of them.
        """
        flight = self._flights.get(key)
        if flight is None:
            flight = self._begin(key, work)
        else:
            SHARED_SEARCHES.inc()
        flight.passengers += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.passengers -= 1
            if not flight.passengers and not flight.task.done():
                self._ended(key, flight)
                flight.task.cancel()

    def _begin(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Answer]]) -> _Flight[Answer]:
        flight = self._flights[key] = _Flight(asyncio.create_task(work()))
        flight.task.add_done_callback(partial(self._landed, key, flight))
        return flight

    def _landed(self, key: Hashable, flight: _Flight[Answer], task: asyncio.Task[Answer]) -> None:
        self._ended(key, flight)
        if not task.cancelled():
            # Who asked may all have left: a failure that nobody hears of is none.
            task.exception()

    def _ended(self, key: Hashable, flight: _Flight[Answer]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
