"""Reads of an index: scans and look-ups of bookkeeping fields (doc values) or whole documents.

Of a record that has changed its shard, the copy that it left is skipped. No point in time is held. A record that is
written during a scan is returned in its old or new state; one whose feed key changes may be returned twice or not at
all.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

import msgspec
import orjson
from elasticsearch import ApiError

from cluster.client import is_memory_shortage
from indexer.clock import UNDATED, first_future_version
from indexer.settings import IndexerContext
from mappings.shards import LEFT_QUERY

Hit = TypeVar("Hit")


class IndexRow(msgspec.Struct, gc=False, frozen=True):
    """The bookkeeping fields of one record. `clock` is in milliseconds since 1970.

    `reason` is why the record was deleted, None for all others. `version` orders the states of a record: UNDATED, below
    all others, if its time cannot be right. `stored_version` is the one that Elasticsearch compares with. Only
    look-ups read `changed` and `past` (`mappings.stored_document`).
    """

    id: str
    feed_key: str
    version: int
    content: int
    clock: int
    sequence: int
    deleted: bool
    reason: str | None
    stored_version: int
    changed: Sequence[int] = ()
    past: str = ""

    @property
    def company(self) -> str:
        return self.feed_key.partition(":")[0]


class StoredDocument(msgspec.Struct, gc=False, frozen=True):
    """One whole document. `source` has exactly the bytes that were sent."""

    id: str
    version: int
    seq_no: int
    source: bytes


class _DocValues(msgspec.Struct, gc=False, rename={"stored_version": "_version"}):
    """Doc values are lists; every field here has one value."""

    id: tuple[str]
    feed_key: tuple[str]
    version: tuple[int]
    content: tuple[int]
    clock: tuple[int]
    sequence: tuple[int]
    deleted: tuple[bool]
    stored_version: tuple[int]
    reason: tuple[str | None] = (None,)
    changed: tuple[int, ...] = ()
    past: tuple[str] = ("",)


class _RowHit(msgspec.Struct, gc=False):
    fields: _DocValues


class _DocumentHit(
    msgspec.Struct, rename={"id": "_id", "version": "_version", "seq_no": "_seq_no", "source": "_source"}
):
    id: str
    version: int
    seq_no: int
    source: msgspec.Raw
    sort: list[Any] = []


class _Hits(msgspec.Struct, Generic[Hit]):
    # A filtered response omits an empty list.
    hits: list[Hit] = []


class _SearchResponse(msgspec.Struct, Generic[Hit]):
    hits: _Hits[Hit] = msgspec.field(default_factory=_Hits)


_LOOKUP_FIELDS = _DocValues.__struct_encode_fields__
_ROW_FIELDS = tuple(name for name in _LOOKUP_FIELDS if name not in {"changed", "past"})
_rows = msgspec.json.Decoder(_SearchResponse[_RowHit]).decode
_documents = msgspec.json.Decoder(_SearchResponse[_DocumentHit]).decode


def _decode_rows(response: bytes, first_future: int) -> list[IndexRow]:
    """Decode a search response whose hits have `_ROW_FIELDS` as doc values.

    Versions from `first_future` on are UNDATED.
    """
    return [_row(hit.fields, first_future) for hit in _rows(response).hits.hits]


def _row(fields: _DocValues, first_future: int) -> IndexRow:
    version = fields.version[0]
    return IndexRow(
        fields.id[0],
        fields.feed_key[0],
        version if version < first_future else UNDATED,
        fields.content[0],
        fields.clock[0],
        fields.sequence[0],
        fields.deleted[0],
        fields.reason[0],
        fields.stored_version[0],
        fields.changed,
        fields.past[0],
    )


def _decode_documents(response: bytes) -> tuple[list[StoredDocument], list[Any]]:
    """Decode a search response of whole documents; return them and the last one's sort values, for the next page."""
    hits = _documents(response).hits.hits
    documents = [StoredDocument(hit.id, hit.version, hit.seq_no, bytes(hit.source)) for hit in hits]
    return documents, hits[-1].sort if hits else []


Item = TypeVar("Item")

# Sizes are of responses: about 300 bytes per row, about 8 KB per document.
ROWS_PER_PAGE = 5_000
ROWS_PER_LOOKUP = 1_000
DOCUMENTS_PER_FETCH = 500
DOCUMENTS_PER_PAGE = 1_000
BYTES_PER_PAGE = 4_000_000
_FIRST_PAGE = 20
# Of a record that changes its shard, until the copy that it leaves is marked.
_COPIES = 2
_MAX_COPIES = 10_000

_MATCH_ALL: dict[str, Any] = {"match_all": {}}

_ROWS = {
    "stored_fields": "_none_",
    "docvalue_fields": _ROW_FIELDS,
    "track_total_hits": False,
}
_DOCUMENTS = {"version": True, "seq_no_primary_term": True, "track_total_hits": False}


def scan_rows(
    context: IndexerContext,
    index: str,
    *,
    query: dict[str, Any] | None = None,
    shard: int | None = None,
    of_left: bool = False,
) -> AsyncGenerator[list[IndexRow], None]:
    """Yield the rows of an index, or of one shard, in the order of `feed_key`, in pages, each requested ahead.

    With `of_left` they are those of the copies that records have left.
    """
    size = ROWS_PER_PAGE

    async def page(after: list[Any]) -> tuple[list[IndexRow], list[Any] | None]:
        rows = await _search_rows(
            context, index, _ROWS | _sorted(query, ["feed_key"], after, size, of_left=of_left), shard
        )
        return rows, [rows[-1].feed_key] if len(rows) == size else None

    return _prefetched(page)


async def look_up_rows(context: IndexerContext, index: str, identifiers: Sequence[str]) -> dict[str, IndexRow]:
    """Return the rows of the given records by identifier, as far as they are visible; of two copies the newer one."""
    rows: dict[str, IndexRow] = {}
    for batch in _batches(identifiers, ROWS_PER_LOOKUP):
        body = _ROWS | {"docvalue_fields": _LOOKUP_FIELDS, "query": _has_id(batch), "size": _COPIES * len(batch)}
        found = sorted(await _search_rows(context, index, body), key=lambda row: row.sequence)
        rows.update((row.id, row) for row in found)
    return rows


def scan_documents(
    context: IndexerContext,
    index: str,
    *,
    query: dict[str, Any],
    order: str,
    shard: int | None = None,
) -> AsyncGenerator[list[StoredDocument], None]:
    """Yield documents in the order of `_seq_no`, `sequence` or `feed_key`, in pages of a few megabytes.

    A `_seq_no` counts within a shard, so that order is meant for one `shard`, or for an index that has no other.

    The size of each page follows from the documents of the previous one; the next page is requested ahead.
    """
    size = _FIRST_PAGE
    # Feed keys are unique.
    by = [order] if order == "feed_key" else [order, "feed_key"]

    async def page(after: list[Any]) -> tuple[list[StoredDocument], list[Any] | None]:
        nonlocal size
        while (response := await _attempt(context, index, _sorted(query, by, after, size), shard)) is None:
            size //= 2
        documents, last = _decode_documents(response)
        is_full, size = len(documents) == size, _page_size(documents)
        return documents, last if is_full else None

    return _prefetched(page)


async def fetch_documents(context: IndexerContext, index: str, identifiers: Sequence[str]) -> list[StoredDocument]:
    """Return the documents of the given records, as far as they are visible, unordered."""
    documents: list[StoredDocument] = []
    start, size = 0, _FIRST_PAGE
    while batch := identifiers[start : start + size]:
        response = await _attempt(context, index, {"query": _has_id(batch), "size": _COPIES * len(batch)})
        if response is None:
            size = len(batch) // 2
            continue
        page = _decode_documents(response)[0]
        documents += page
        start, size = start + len(batch), min(DOCUMENTS_PER_FETCH, _page_size(page))
    return documents


async def copies_of(context: IndexerContext, index: str, identifiers: Sequence[str]) -> list[StoredDocument]:
    """Return the documents of the given records in all shards, also the copies that they have left."""
    documents: list[StoredDocument] = []
    for batch in _batches(identifiers, _FIRST_PAGE):
        body = {"query": {"terms": {"_id": batch}}, "size": _MAX_COPIES}
        documents += _decode_documents(await _search(context, index, _DOCUMENTS | body))[0]
    return documents


async def _attempt(context: IndexerContext, index: str, body: dict[str, Any], shard: int | None = None) -> bytes | None:
    """Return a page of documents; None if it needs more memory than Elasticsearch has, so that it must be smaller."""
    can_shrink = body["size"] > 1
    try:
        is_final = is_memory_shortage if can_shrink else None
        return await _search(context, index, _DOCUMENTS | body, _preference(shard), is_final=is_final)
    except ApiError as error:
        if can_shrink and is_memory_shortage(error):
            return None
        raise


def _preference(shard: int | None) -> str:
    return "" if shard is None else f"&preference=_shards:{shard}"


def _sorted(
    query: dict[str, Any] | None, by: list[str], after: list[Any], size: int, *, of_left: bool = False
) -> dict[str, Any]:
    cursor = {"search_after": after} if after else {}
    matching = {"bool": {"filter": query or _MATCH_ALL, "must" if of_left else "must_not": LEFT_QUERY}}
    return {"query": matching, "sort": by, "size": size, **cursor}


def _has_id(identifiers: Sequence[str]) -> dict[str, Any]:
    return {"bool": {"filter": {"terms": {"_id": identifiers}}, "must_not": LEFT_QUERY}}


def _batches(identifiers: Sequence[str], size: int) -> list[Sequence[str]]:
    return [identifiers[at : at + size] for at in range(0, len(identifiers), size)]


def _page_size(documents: list[StoredDocument]) -> int:
    average = sum(len(document.source) for document in documents) // max(1, len(documents))
    return max(1, min(DOCUMENTS_PER_PAGE, BYTES_PER_PAGE // max(1, average)))


async def _search_rows(
    context: IndexerContext, index: str, body: dict[str, Any], shard: int | None = None
) -> list[IndexRow]:
    response = await _search(context, index, body, f"&filter_path=hits.hits.fields{_preference(shard)}")
    return _decode_rows(response, first_future_version(context.settings.future_seconds))


async def _search(
    context: IndexerContext,
    index: str,
    body: dict[str, Any],
    options: str = "",
    is_final: Callable[[ApiError], bool] | None = None,
) -> bytes:
    # Otherwise a shard that fails midway would yield 200 with partial results.
    target, encoded = f"/{index}/_search?allow_partial_search_results=false{options}", orjson.dumps(body)
    return await context.cluster.read_raw("POST", target, encoded, is_final)


async def _prefetched(
    page: Callable[[list[Any]], Coroutine[Any, Any, tuple[list[Item], list[Any] | None]]],
) -> AsyncGenerator[list[Item], None]:
    """Yield pages until the last, requesting each before the previous one is yielded."""
    after: list[Any] | None = []
    request = asyncio.create_task(page([]))
    try:
        while after is not None:
            items, after = await request
            if after is not None:
                request = asyncio.create_task(page(after))
            if items:
                yield items
    finally:
        request.cancel()
        await asyncio.wait([request])
