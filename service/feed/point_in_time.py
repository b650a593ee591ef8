"""Consistent reads of an index page by page, with Elasticsearch's point in time (PIT)."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus

import orjson

from mappings.digest import Digest
from mappings.shown_content import ShownContent
from mappings.stored_document import feed_key_range
from service.errors import ApiError
from service.feed import hash_sums
from service.search.engine import SearchEngine
from service.search.engine_failures import status_failure
from service.search.query import Body, Clause, Selection, scope_clauses, term
from service.search.shards.served_shards import EVERYTHING, Reach, ServedShards
from service.search.shards.shard_table import gone

# The PIT expires this long after its last search.
KEEP_ALIVE_SECONDS = 120
# While a client reads slowly there is none, so a search for nothing is sent this often.
_RENEWAL_SECONDS = 40.0
_NOTHING: dict[str, object] = {"size": 0, "terminate_after": 1, "track_total_hits": False}
# One page keeps an Elasticsearch core busy; a second one keeps it busy while the previous page is sent.
_PREFETCHED_PAGES = 2
# The bytes before and after the sort values of the last hit.
_SORT_KEY, _HITS_END = b',"sort":', b"}]}}"
# Each response begins with the current PIT id.
_PIT_ID = re.compile(rb'\{"pit_id":"([^"]+)"')


class PointInTime:
    """An open point in time of a resource's index."""

    def __init__(self, engine: SearchEngine, pit_id: str, served: ServedShards | None, reach: Reach) -> None:
        """Use an open PIT of an index with some `served` shards, None for one."""
        self._engine = engine
        self.pit_id = pit_id
        self._served = served
        self._reach = reach

    async def digest(self, selection: Selection, content: ShownContent, after: str) -> Digest:
        """Return the digest of the selected records after a feed key; empty: of all."""
        body = hash_sums.digest_body(_query_after(selection, after), content)
        return hash_sums.parse_digest(orjson.loads(await self._search(body)))

    async def pages(self, selection: Selection, after: str, count: int, size: int) -> AsyncGenerator[bytes]:
        """Yield the responses with the next `count` records after a feed key, in order; pages are prefetched."""
        pending = deque[asyncio.Task[bytes]]()
        try:
            for remaining in range(count, 0, -size):
                pending.append(asyncio.create_task(self._page(selection, after, size)))
                if remaining > size:
                    after = await self._page_end(selection, after, size)
                if len(pending) > _PREFETCHED_PAGES:
                    yield await pending.popleft()
            while pending:
                yield await pending.popleft()
        finally:
            for page in pending:
                page.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    async def renew(self) -> None:
        """Keep the PIT open, until it is cancelled."""
        while True:
            await asyncio.sleep(_RENEWAL_SECONDS)
            with suppress(ApiError):
                await self._search(_NOTHING)

    async def close(self) -> None:
        """Close the PIT, which would also expire by itself."""
        with suppress(ApiError):
            await self._engine.request("DELETE", "/_pit", orjson.dumps({"id": self.pit_id}))

    async def _page(self, selection: Selection, after: str, size: int) -> bytes:
        return await self._search(_sorted_query(selection, after) | {"size": size})

    async def _page_end(self, selection: Selection, after: str, size: int) -> str:
        """Return the feed key of the last record of a page without loading the records before it."""
        only_the_last = {"from": size - 1, "size": 1, "_source": False}
        return _last_feed_key(await self._search(_sorted_query(selection, after) | only_the_last))

    async def _search(self, body: Body) -> bytes:
        if self._served is not None and "query" in body:
            body = self._served.visible(body, self._reach)
        request = body | {"pit": {"id": self.pit_id, "keep_alive": f"{KEEP_ALIVE_SECONDS}s"}}
        response = await self._engine.search_complete("", orjson.dumps(request))
        if (match := _PIT_ID.match(response)) is not None:
            self.pit_id = match[1].decode()
        return response


def _sorted_query(selection: Selection, after: str) -> Body:
    return {"query": _query_after(selection, after), "sort": ["feed_key"], "track_total_hits": False}


def _last_feed_key(response: bytes) -> str:
    """Return the feed key of the last record of a non-empty response."""
    values = response[response.rfind(_SORT_KEY) + len(_SORT_KEY) : -len(_HITS_END)]
    return str(orjson.loads(values)[0])


def _query_after(selection: Selection, after: str) -> Clause:
    """Return the query for the selected records after a feed key, in index sort order."""
    scope = selection.scope
    if (single := scope.single_company) is not None:
        bounds = feed_key_range(single)
        clauses: list[Clause] = [{"range": {"feed_key": bounds | {"gt": max(bounds["gt"], after)}}}]
    else:
        clauses = scope_clauses(scope)
        if after:
            clauses.append({"range": {"feed_key": {"gt": after}}})
    return {"bool": {"filter": [*clauses, term("deleted", value=False), *selection.clauses]}}


async def _open(engine: SearchEngine, index: str, reach: Reach, served: ServedShards | None) -> PointInTime:
    target, routing = (index, "") if served is None else (served.target, served.routing(reach))
    status, response = await engine.request("POST", f"/{target}/_pit?keep_alive={KEEP_ALIVE_SECONDS}s{routing}", None)
    if status == HTTPStatus.NOT_FOUND and served is not None:
        raise gone(response)
    if status != HTTPStatus.OK:
        raise status_failure(status, response, None)
    point = PointInTime(engine, orjson.loads(response)["id"], served, reach)
    if served is None:
        try:
            await engine.shards.checked(index, response)
        except BaseException:
            await point.close()
            raise
    return point


@asynccontextmanager
async def open_point_in_time(engine: SearchEngine, index: str, reach: Reach = EVERYTHING) -> AsyncIterator[PointInTime]:
    """Open a PIT of an index and close it at the end; raise ApiError."""
    engine.require_available(index)
    point = await engine.shards.repeat(index, partial(_open, engine, index, reach))
    renewal = asyncio.create_task(point.renew())
    try:
        yield point
    finally:
        renewal.cancel()
        await point.close()
