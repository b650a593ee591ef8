"""Request coalescing: one search for all concurrent requests that need the same."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


@dataclass
class _SharedTask(Generic[Result]):
    task: asyncio.Task[Result]
    started_at: float  # by the loop's clock, in seconds
    waiters: int = 0


class SingleFlight(Generic[Result]):
    """Running tasks by key. Nothing is cached: a request after the end of a task starts another.

    A request that joins a task gets a result that may predate the request by `max_age` seconds. Whatever the result
    must not be older than has to be part of the key.
    """

    def __init__(self, on_shared: Callable[[], None], max_age: float) -> None:
        """Call `on_shared` for each request that joins a task."""
        self._on_shared = on_shared
        self._max_age = max_age
        self._tasks: dict[Hashable, _SharedTask[Result]] = {}

    async def run(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Return what `work` returns or raises; concurrent requests with the same key share one call.

        A cancelled request does not affect the others; the work is cancelled with the last of them.
        """
        shared = self._tasks.get(key)
        if shared is None or asyncio.get_running_loop().time() - shared.started_at > self._max_age:
            shared = self._start(key, work)
        else:
            self._on_shared()
        shared.waiters += 1
        try:
            return await asyncio.shield(shared.task)
        finally:
            shared.waiters -= 1
            if not shared.waiters:
                self._remove(key, shared)
                shared.task.cancel()

    def _start(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Result]]) -> _SharedTask[Result]:
        shared = self._tasks[key] = _SharedTask(asyncio.create_task(work()), asyncio.get_running_loop().time())
        shared.task.add_done_callback(partial(self._on_done, key, shared))
        return shared

    def _on_done(self, key: Hashable, shared: _SharedTask[Result], task: asyncio.Task[Result]) -> None:
        if not task.cancelled():
            task.exception()  # mark it as retrieved: all waiters may be gone
        self._remove(key, shared)

    def _remove(self, key: Hashable, shared: _SharedTask[Result]) -> None:
        if self._tasks.get(key) is shared:
            del self._tasks[key]
