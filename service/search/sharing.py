"""Requests that share work: one search for all that need the same, and one read for several records.

Most of what a read of one record costs Elasticsearch is overhead; further records add little. No request waits for a
batch to fill: without a running read a record is read at once.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from service.http.responses import JsonBytes

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


Records = Mapping[str, JsonBytes]
Read = Callable[[Sequence[str]], Coroutine[Any, Any, Records]]

# A read that takes longer, perhaps for ever, blocks no other: the next one starts alongside it.
_SLOW_READ_SECONDS = 0.05
# Bounds the size of a response; further records go into the read after.
_MAX_BATCH_SIZE = 64


@dataclass(eq=False)
class _Batch:
    """The identifiers of one read, how many requests wait for it, and how the first of them reads."""

    read: Read
    result: asyncio.Future[Records]
    context: Context = field(default_factory=copy_context)
    identifiers: dict[str, None] = field(default_factory=dict)
    waiters: int = 0
    task: asyncio.Task[Records] | None = None  # once started
    is_open: bool = True  # to more identifiers, until the read is sent

    async def run(self) -> Records:
        """Read all identifiers that were added in the same iteration of the event loop."""
        self.is_open = False
        return await self.read(list(self.identifiers))


@dataclass
class _Queue:
    batches: deque[_Batch] = field(default_factory=deque)  # waiting to start
    current: _Batch | None = None  # the read they wait for


class BatchLoader:
    """Reads records by identifier, those of the same group together."""

    def __init__(self) -> None:
        self._queues: dict[Hashable, _Queue] = {}

    async def load(self, group: Hashable, identifier: str, read: Read) -> JsonBytes | None:
        """Return a record, None if it does not exist; raise what `read` raises.

        `group` says which records may share a read: those of one resource, scope, licence and precision. `read`
        returns the records that exist, by identifier. The read for a request always starts after the request
        arrived, and is cancelled with the last request that waits for it.
        """
        queue = self._queues.setdefault(group, _Queue())
        batch = _add_to_batch(queue, identifier, read)
        if queue.current is None:
            self._start_next(group, queue)
        batch.waiters += 1
        try:
            return (await asyncio.shield(batch.result)).get(identifier)
        finally:
            batch.waiters -= 1
            if not batch.waiters:
                _cancel(queue, batch)

    def _start_next(self, group: Hashable, queue: _Queue) -> None:
        if not queue.batches:
            queue.current = None
            del self._queues[group]
            return
        batch = queue.current = queue.batches.popleft()
        batch.task = asyncio.create_task(batch.run(), context=batch.context)
        advance = partial(self._advance, group, queue, batch)
        timer = asyncio.get_running_loop().call_later(_SLOW_READ_SECONDS, advance)
        batch.task.add_done_callback(partial(_set_result, batch, timer))
        batch.task.add_done_callback(advance)

    def _advance(self, group: Hashable, queue: _Queue, batch: _Batch, _: object = None) -> None:
        """Start the next batch once a read has ended or is slow, whichever comes first."""
        if queue.current is batch:
            self._start_next(group, queue)


def _add_to_batch(queue: _Queue, identifier: str, read: Read) -> _Batch:
    batch = queue.batches[-1] if queue.batches else queue.current
    if batch is None or not batch.is_open or len(batch.identifiers) == _MAX_BATCH_SIZE:
        batch = _Batch(read, asyncio.get_running_loop().create_future())
        queue.batches.append(batch)
    batch.identifiers[identifier] = None
    return batch


def _set_result(batch: _Batch, timer: asyncio.TimerHandle, task: asyncio.Task[Records]) -> None:
    timer.cancel()
    if task.cancelled():
        batch.result.cancel()
    elif (error := task.exception()) is not None:
        batch.result.set_exception(error)
        batch.result.exception()  # mark it as retrieved: all waiters may be gone
    else:
        batch.result.set_result(task.result())


def _cancel(queue: _Queue, batch: _Batch) -> None:
    batch.is_open = False
    if batch.task is not None:
        batch.task.cancel()
    else:
        queue.batches.remove(batch)
