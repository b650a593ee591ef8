"""The same listings as most would keep them: three indices, asked with a company filter and plain `search_after`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson

from bench.arms import BY_COMPANY, BY_ID, UNSORTED
from indexer.bulk import BULK_HEADERS
from indexer.scan import stored
from mappings import LISTING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from elasticsearch import AsyncElasticsearch

    from indexer import Engine
    from indexer.scan import Stored

# By arm: the end of the index's name, and the fields that sort it and its answers.
INDICES = {
    UNSORTED: ("textbook-unsorted", []),
    BY_ID: ("textbook-id", ["id"]),
    BY_COMPANY: ("textbook-company-id", ["company", "id"]),
}
_SORTS = {UNSORTED: ["id"], BY_ID: ["id"], BY_COMPANY: ["company", "id"]}
_PATIENT_SECONDS = 24 * 3600
_EVERY: dict[str, Any] = {"match_all": {}}


def index_body(arm: str) -> dict[str, Any]:
    """Return the body that creates an index: plain field types, and what sorts it; all else as it comes."""
    fields = {field.name: {"type": field.mapping["type"]} for field in LISTING.search}
    mappings = {"dynamic": False, "properties": fields | {"record": {"type": "object", "enabled": False}}}
    sort = INDICES[arm][1]
    settings: dict[str, Any] = {"index.number_of_shards": 1, "index.number_of_replicas": 0}
    return {"mappings": mappings, "settings": settings | ({"index.sort.field": sort} if sort else {})}


def search_body(arm: str, company: str, size: int, after: str | None) -> bytes:
    """Return the body for the page behind a cursor; it counts no total, as a team that has measured once would."""
    filters = [{"term": {"company": company}}, {"term": {"deleted": False}}, {"range": {"clock": {"gte": 1000}}}]
    sort = _SORTS[arm]
    body: dict[str, Any] = {"size": size, "query": {"bool": {"filter": filters}}, "sort": sort}
    values = [company, after] if len(sort) == 2 else [after]
    return orjson.dumps(body | {"track_total_hits": False} | ({} if after is None else {"search_after": values}))


async def fill(engine: Engine, live: str, expected: int, tell: Callable[[str], None]) -> None:
    """Fill the indices that lack documents from the live generation, in the order in which it was written."""
    prefix = engine.connection.prefix
    missing = [arm for arm in INDICES if await _count(engine.client, prefix + INDICES[arm][0]) != expected]
    names = [prefix + INDICES[arm][0] for arm in missing]
    for arm, name in zip(missing, names, strict=True):
        await engine.client.indices.delete(index=name, ignore_unavailable=True)
        body = index_body(arm)
        body["settings"] |= {"index.refresh_interval": "-1"}
        await engine.client.indices.create(index=name, **body)
    if names:
        await _copy(engine, live, names, tell)
    for name in names:
        tell(f"merging {name}")
        await _finish(engine.client, name)


async def _count(client: AsyncElasticsearch, name: str) -> int:
    if not await client.indices.exists(index=name):
        return 0
    return int((await client.count(index=name))["count"])


async def _copy(engine: Engine, live: str, names: Sequence[str], tell: Callable[[str], None]) -> None:
    done = 0
    async for page in stored(engine, live, query=_EVERY, order="_seq_no"):
        body = b"".join(_action(document) for document in page)
        await asyncio.gather(*(_send(engine.client, name, body) for name in names))
        done += len(page)
        tell(f"textbook indices: {done:,} listings")


def _action(document: Stored) -> bytes:
    return b'{"index":{"_id":%b}}\n%b\n' % (orjson.dumps(document.id), document.source)


async def _send(client: AsyncElasticsearch, name: str, body: bytes) -> None:
    answer = await client.perform_request(
        "POST", f"/{name}/_bulk", params={"filter_path": "errors"}, headers=BULK_HEADERS, body=body
    )
    if answer["errors"]:
        raise RuntimeError(f"Elasticsearch refused a document of {name}.")


async def _finish(client: AsyncElasticsearch, name: str) -> None:
    """Bring an index to the shape of a live generation: refreshed as usual, in one segment."""
    patient = client.options(request_timeout=_PATIENT_SECONDS).indices
    await patient.forcemerge(index=name, max_num_segments=1)
    await patient.put_settings(index=name, settings={"index.refresh_interval": None})
    await patient.refresh(index=name)
