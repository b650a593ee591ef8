"""Single records, read together: what is asked for while searches are under way goes into the next one as a whole.

A search for one record costs Elasticsearch a millisecond of taking, queueing and answering, and next to nothing for
each record more. Nobody waits for company: while no search is under way a record is asked for at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
    from typing import Any

    from service.answer import Encoded

    Found = Mapping[str, Encoded]
    Search = Callable[[Sequence[str]], Coroutine[Any, Any, Found]]

# A search that takes longer, perhaps for ever, holds nobody up: the next one begins beside it.
_PATIENCE_SECONDS = 0.05
# A bound for the size of an answer; more are asked for in the search after.
_MOST_TOGETHER = 64


@dataclass(eq=False)
class _Batch:
    """The records of one search, each once, and how many requests wait for any of them."""

    answer: asyncio.Future[Found]
    names: dict[str, None] = field(default_factory=dict)
    waiting: int = 0
    task: asyncio.Task[Found] | None = None  # once its turn has come
    is_open: bool = True  # for more records, until the search has really begun

    async def find(self, search: Search) -> Found:
        """Search; all that came in the same turn of the event loop is asked for."""
        self.is_open = False
        return await search(list(self.names))


@dataclass
class _Queue:
    batches: deque[_Batch] = field(default_factory=deque)  # that wait for their turn
    current: _Batch | None = None  # the search that they wait for


class Gathering:
    """Reads records by identifier, those of the same place together."""

    def __init__(self) -> None:
        """Begin with nothing asked for."""
        self._queues: dict[Hashable, _Queue] = {}

    async def get(self, place: Hashable, identifier: str, search: Search) -> Encoded | None:
        """Return a record, None when there is none; raise what `search` raises.

        `place` says which records may be asked for together: of one resource and one scope. `search` returns those of
        some identifiers that there are. A search that answers a request always begins after it came, and is cancelled
        with the last of those that it is for.
        """
        queue = self._queues.setdefault(place, _Queue())
        batch = _last(queue, identifier)
        if queue.current is None:
            self._next(place, queue, search)
        batch.waiting += 1
        try:
            return (await asyncio.shield(batch.answer)).get(identifier)
        finally:
            batch.waiting -= 1
            if not batch.waiting:
                _give_up(queue, batch)

    def _next(self, place: Hashable, queue: _Queue, search: Search) -> None:
        """Let the next batch's turn come, if there is one."""
        if not queue.batches:
            queue.current = None
            del self._queues[place]
            return
        batch = queue.current = queue.batches.popleft()
        batch.task = asyncio.create_task(batch.find(search))
        on = partial(self._passed, place, queue, batch, search)
        impatience = asyncio.get_running_loop().call_later(_PATIENCE_SECONDS, on)
        batch.task.add_done_callback(partial(_landed, batch, impatience))
        batch.task.add_done_callback(lambda _: on())

    def _passed(self, place: Hashable, queue: _Queue, batch: _Batch, search: Search) -> None:
        """Go on behind a search that has ended or takes too long, whichever is first."""
        if queue.current is batch:
            self._next(place, queue, search)


def _last(queue: _Queue, identifier: str) -> _Batch:
    """Return the batch that a record goes with."""
    batch = queue.batches[-1] if queue.batches else queue.current
    if batch is None or not batch.is_open or len(batch.names) == _MOST_TOGETHER:
        batch = _Batch(asyncio.get_running_loop().create_future())
        queue.batches.append(batch)
    batch.names[identifier] = None
    return batch


def _landed(batch: _Batch, impatience: asyncio.TimerHandle, task: asyncio.Task[Found]) -> None:
    impatience.cancel()
    if task.cancelled():
        batch.answer.cancel()
    elif (error := task.exception()) is not None:
        batch.answer.set_exception(error)
        batch.answer.exception()  # whoever asked may have left
    else:
        batch.answer.set_result(task.result())


def _give_up(queue: _Queue, batch: _Batch) -> None:
    """End what nobody waits for."""
    batch.is_open = False
    if batch.task is not None:
        batch.task.cancel()
    else:
        queue.batches.remove(batch)
