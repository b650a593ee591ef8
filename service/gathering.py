"""Single records, read together: what is asked for while searches are under way goes into the next one as a whole.

A search for one record costs Elasticsearch a millisecond of taking, queueing and answering, and next to nothing for
each record more. Nobody waits for company: while no search is under way a record is asked for at once.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence

    from service.answer import Encoded

    Search = Callable[[Sequence[str]], Awaitable[Mapping[str, Encoded]]]

# A search that takes longer, perhaps for ever, holds nobody up: the next one begins beside it.
_PATIENCE_SECONDS = 0.05
# A bound for the size of an answer; more are asked for in the search after.
_MOST_TOGETHER = 64


@dataclass
class _Queue:
    waiting: dict[str, asyncio.Future[Encoded | None]] = field(default_factory=dict)
    worker: asyncio.Task[None] | None = None


class Gathering:
    """Reads records by identifier, those of the same place together."""

    def __init__(self) -> None:
        """Begin with nothing asked for."""
        self._queues: defaultdict[Hashable, _Queue] = defaultdict(_Queue)
        self._tasks: set[asyncio.Task[None]] = set()

    async def get(self, place: Hashable, identifier: str, search: Search) -> Encoded | None:
        """Return a record, None when there is none; raise what `search` raises.

        `place` says which records may be asked for together: of one resource and one scope. `search` returns those of
        some identifiers that there are. A search that answers a request always begins after it came.
        """
        queue = self._queues[place]
        found = queue.waiting.get(identifier)
        if found is None:
            found = queue.waiting[identifier] = asyncio.get_running_loop().create_future()
        if queue.worker is None:
            self._begin(place, search)
        # Others may wait for the same record: who leaves must not take it from them.
        return await asyncio.shield(found)

    def _begin(self, place: Hashable, search: Search) -> None:
        """Let a new worker serve a place, in the stead of one that waits too long for its search."""
        queue = self._queues[place]
        queue.worker = asyncio.create_task(self._work(place, queue, search))
        self._tasks.add(queue.worker)
        queue.worker.add_done_callback(self._tasks.discard)

    async def _work(self, place: Hashable, queue: _Queue, search: Search) -> None:
        """Search until nobody waits."""
        loop = asyncio.get_running_loop()
        while queue.waiting:
            asked = {name: queue.waiting.pop(name) for name in list(queue.waiting)[:_MOST_TOGETHER]}
            impatience = loop.call_later(_PATIENCE_SECONDS, self._begin, place, search)
            await _answer(asked, search)
            impatience.cancel()
        if queue.worker is asyncio.current_task():
            del self._queues[place]


async def _answer(asked: Mapping[str, asyncio.Future[Encoded | None]], search: Search) -> None:
    try:
        found = await search(list(asked))
    except Exception as error:
        for future in asked.values():
            future.set_exception(error)
            future.exception()  # whoever asked may have left
    else:
        for identifier, future in asked.items():
            future.set_result(found.get(identifier))
