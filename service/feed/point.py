"""The state of an index at one moment, read page by page while it changes (Elasticsearch's point in time)."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

import orjson

from mappings.document import feed_range
from service.errors import ApiError
from service.failures import refusal
from service.feed import sums
from service.query import term, within

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from mappings.digest import Digest
    from service.elastic import Engine
    from service.query import Body, Clause, Selection

# Elasticsearch keeps the state for so long after each search of it: a client that stops reading loses it.
KEPT_SECONDS = 120
# One page keeps a core of Elasticsearch busy, two keep it busy while the one before them is sent.
_AHEAD = 2
# What stands before the values that the last hit is sorted by, and behind them.
_SORT_KEY, _END = b',"sort":', b"}]}}"
# Each answer names the state anew, before anything else.
_NAME = re.compile(rb'\{"pit_id":"([^"]+)"')


class Point:
    """The state of a resource's index."""

    def __init__(self, engine: Engine, name: str) -> None:
        """Use a state that is kept under a name."""
        self._engine = engine
        self.name = name

    async def digest(self, selection: Selection, after: str) -> Digest:
        """Return the digest of the records that are selected behind a feed key, which is empty for all."""
        return sums.whole(orjson.loads(await self._search(sums.whole_body(_behind(selection, after)))))

    async def pages(self, selection: Selection, after: str, count: int, size: int) -> AsyncGenerator[bytes]:
        """Yield the answers with the `count` records behind a feed key, in their order; some are asked for ahead."""
        under_way = deque[asyncio.Task[bytes]]()
        try:
            for left in range(count, 0, -size):
                under_way.append(asyncio.create_task(self._page(selection, after, size)))
                if left > size:
                    after = await self._end(selection, after, size)
                if len(under_way) > _AHEAD:
                    yield await under_way.popleft()
            while under_way:
                yield await under_way.popleft()
        finally:
            for page in under_way:
                page.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def _page(self, selection: Selection, after: str, size: int) -> bytes:
        return await self._search(_in_order(selection, after) | {"size": size})

    async def _end(self, selection: Selection, after: str, size: int) -> str:
        """Return the feed key of the last record of a page: those before it are counted in the index, and not read."""
        only_the_last = {"from": size - 1, "size": 1, "_source": False}
        return _last(await self._search(_in_order(selection, after) | only_the_last))

    async def _search(self, body: Body) -> bytes:
        asked = body | {"pit": {"id": self.name, "keep_alive": f"{KEPT_SECONDS}s"}}
        answer = await self._engine.search_whole("", orjson.dumps(asked))
        if (named := _NAME.match(answer)) is not None:
            self.name = named[1].decode()
        return answer


def _in_order(selection: Selection, after: str) -> Body:
    return {"query": _behind(selection, after), "sort": ["feed_key"], "track_total_hits": False}


def _last(answer: bytes) -> str:
    """Return the feed key of the last record of an answer that holds any."""
    values = answer[answer.rfind(_SORT_KEY) + len(_SORT_KEY) : -len(_END)]
    return str(orjson.loads(values)[0])


def _behind(selection: Selection, after: str) -> Clause:
    """Return the query for what is selected behind a feed key, wherever that lies; its order is the index's own."""
    scope = selection.scope
    if (single := scope.single) is not None:
        least = feed_range(single)
        place: list[Clause] = [{"range": {"feed_key": least | {"gt": max(least["gt"], after)}}}]
    else:
        place = within(scope)
        if after:
            place.append({"range": {"feed_key": {"gt": after}}})
    return {"bool": {"filter": [*place, term("deleted", value=False), *selection.clauses]}}


@asynccontextmanager
async def point_in_time(engine: Engine, index: str) -> AsyncIterator[Point]:
    """Hold the present state of an index; raise ApiError."""
    engine.refuse_unsound(index)
    status, answer = await engine.call("POST", f"/{index}/_pit?keep_alive={KEPT_SECONDS}s", None)
    if status != HTTPStatus.OK:
        raise refusal(status, answer, None)
    point = Point(engine, orjson.loads(answer)["id"])
    try:
        yield point
    finally:
        # It would go by itself.
        with suppress(ApiError):
            await engine.call("DELETE", "/_pit", orjson.dumps({"id": point.name}))
