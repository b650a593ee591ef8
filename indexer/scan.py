"""Reading an index cheaply: its bookkeeping from doc values, or whole documents, decoded by type from raw answers.

Nothing here holds a point in time. A record that is written while a scan runs is met as it was or as it is; one whose
feed key changes meanwhile may be met twice or not at all.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from cluster.raw import RAW_HEADERS
from indexer.hits import ROW_FIELDS, Row, Stored, documents_of, rows_of
from indexer.retry import patiently

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence

    from indexer.engine import Engine

__all__ = ["Row", "Stored", "fetch", "last_written", "look_up", "rows", "stored"]

Item = TypeVar("Item")

# Rows of about 300 bytes in the answer, documents of some 8 KB.
ROWS_PER_PAGE = 5_000
LOOKED_UP_TOGETHER = 1_000
FETCHED_TOGETHER = 500
DOCUMENTS_PER_PAGE = 1_000
BYTES_PER_PAGE = 4_000_000
_FIRST_PAGE = 100
# Refreshing an index that never was refreshed is one request that takes as long as it takes.
_REFRESH_SECONDS = 24 * 3600

_EVERY: dict[str, Any] = {"match_all": {}}

_ROWS = {
    "stored_fields": "_none_",
    "docvalue_fields": ROW_FIELDS,
    "track_total_hits": False,
}
_DOCUMENTS = {"version": True, "seq_no_primary_term": True, "track_total_hits": False}


def rows(engine: Engine, index: str, *, query: dict[str, Any] | None = None) -> AsyncGenerator[list[Row], None]:
    """Yield the rows of an index in the order of `feed_key`, a page at a time; the next one is under way meanwhile."""
    size = ROWS_PER_PAGE

    async def page(after: list[Any]) -> tuple[list[Row], list[Any] | None]:
        found = await _rows(engine, index, _ROWS | _sorted(query, ["feed_key"], after, size))
        return found, [found[-1].feed_key] if len(found) == size else None

    return _ahead(page)


async def look_up(engine: Engine, index: str, identifiers: Sequence[str]) -> dict[str, Row]:
    """Return the rows of the given records that are visible, by identifier."""
    found: dict[str, Row] = {}
    for some in _cut(identifiers, LOOKED_UP_TOGETHER):
        body = _ROWS | {"query": _any_of(some), "size": len(some)}
        found.update((row.id, row) for row in await _rows(engine, index, body))
    return found


def stored(engine: Engine, index: str, *, query: dict[str, Any], order: str) -> AsyncGenerator[list[Stored], None]:
    """Yield documents in the order of `_seq_no`, `sequence` or `feed_key`, in pages of a few megabytes.

    The size of a page follows from the documents of the one before; the next one is under way meanwhile.
    """
    size = _FIRST_PAGE
    # No two documents share a feed key.
    by = [order] if order == "feed_key" else [order, "feed_key"]

    async def page(after: list[Any]) -> tuple[list[Stored], list[Any] | None]:
        nonlocal size
        body = _DOCUMENTS | _sorted(query, by, after, size)
        found, last = documents_of(await _search(engine, index, body))
        is_full, size = len(found) == size, _fitting(found)
        return found, last if is_full else None

    return _ahead(page)


async def fetch(engine: Engine, index: str, identifiers: Sequence[str]) -> list[Stored]:
    """Return the documents of the given records that are visible, in no order."""
    found: list[Stored] = []
    for some in _cut(identifiers, FETCHED_TOGETHER):
        body = _DOCUMENTS | {"query": _any_of(some), "size": len(some)}
        found += documents_of(await _search(engine, index, body))[0]
    return found


async def last_written(engine: Engine, index: str) -> int:
    """Return a `_seq_no` up to which everything was written, -1 for nothing, and make all of that visible."""
    client, seconds = engine.client.options(request_timeout=_REFRESH_SECONDS), engine.settings.retry_seconds
    answer = await patiently(lambda: client.indices.stats(index=index, metric="docs", level="shards"), seconds)
    (found,) = answer["indices"].values()
    (copies,) = found["shards"].values()
    (primary,) = [copy for copy in copies if copy["routing"]["primary"]]
    await patiently(lambda: client.indices.refresh(index=index), seconds)
    return int(primary["seq_no"]["local_checkpoint"])


def _sorted(query: dict[str, Any] | None, by: list[str], after: list[Any], size: int) -> dict[str, Any]:
    behind = {"search_after": after} if after else {}
    return {"query": {"bool": {"filter": query or _EVERY}}, "sort": by, "size": size, **behind}


def _any_of(identifiers: Sequence[str]) -> dict[str, Any]:
    return {"bool": {"filter": {"terms": {"_id": identifiers}}}}


def _cut(identifiers: Sequence[str], size: int) -> list[Sequence[str]]:
    return [identifiers[at : at + size] for at in range(0, len(identifiers), size)]


def _fitting(found: list[Stored]) -> int:
    """Return how many documents of the size of these make a page."""
    average = sum(len(document.source) for document in found) // max(1, len(found))
    return max(1, min(DOCUMENTS_PER_PAGE, BYTES_PER_PAGE // max(1, average)))


async def _rows(engine: Engine, index: str, body: dict[str, Any]) -> list[Row]:
    return rows_of(await _search(engine, index, body, "&filter_path=hits.hits.fields"))


async def _search(engine: Engine, index: str, body: dict[str, Any], options: str = "") -> bytes:
    # Else a shard that fails halfway would answer 200 with less than there is.
    target, encoded = f"/{index}/_search?allow_partial_search_results=false{options}", orjson.dumps(body)
    ask = engine.client.perform_request
    answer = await patiently(
        lambda: ask("POST", target, headers=RAW_HEADERS, body=encoded), engine.settings.retry_seconds
    )
    return bytes(answer.body)


async def _ahead(
    page: Callable[[list[Any]], Coroutine[Any, Any, tuple[list[Item], list[Any] | None]]],
) -> AsyncGenerator[list[Item], None]:
    """Yield pages until one has no successor, each asked for before the one in front of it is handed out."""
    after: list[Any] | None = []
    under_way = asyncio.create_task(page([]))
    try:
        while after is not None:
            found, after = await under_way
            if after is not None:
                under_way = asyncio.create_task(page(after))
            if found:
                yield found
    finally:
        under_way.cancel()
        await asyncio.wait([under_way])
