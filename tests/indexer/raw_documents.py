"""Documents written, read and deleted behind the indexer's back, in whichever shard of an index they are."""

from typing import Any

from elasticsearch import AsyncElasticsearch

from mappings.shards import ShardRanges, read_ranges
from mappings.stored_document import CREATED, replace_past, replace_stamp


def without_history(source: bytes) -> bytes:
    """Return a document as it is whatever states came before: with an empty stamp, and without a past."""
    return replace_past(replace_stamp(source, 0, 0, CREATED), "")


async def index_ranges(client: AsyncElasticsearch, index: str) -> ShardRanges:
    (body,) = (await client.indices.get_mapping(index=index)).values()
    return read_ranges(body["mappings"].get("_meta", {}))


async def routing_of(client: AsyncElasticsearch, index: str, identifier: str) -> str | None:
    """Return the routing value of a document, any if there is none; None for one shard."""
    ranges = await index_ranges(client, index)
    if not ranges.is_routed:
        return None
    await client.indices.refresh(index=index)
    found = await client.search(index=index, query={"terms": {"_id": [identifier]}}, source=False)
    hits = found["hits"]["hits"]
    return str(hits[0]["_routing"]) if hits else ranges.routings[0]


async def put_document(
    client: AsyncElasticsearch, index: str, identifier: str, document: dict[str, Any], **options: Any
) -> None:
    """Write a document where the indexer would, and refresh."""
    routing = (await index_ranges(client, index)).routing(document["feed_key"])
    await client.index(index=index, id=identifier, document=document, routing=routing, refresh=True, **options)


async def delete_document(client: AsyncElasticsearch, index: str, identifier: str, **options: Any) -> None:
    await client.delete(index=index, id=identifier, routing=await routing_of(client, index, identifier), **options)


async def get_document(client: AsyncElasticsearch, index: str, identifier: str) -> Any:
    """Return a document as Elasticsearch does, one that is not visible to searches yet, too."""
    return await client.get(index=index, id=identifier, routing=await routing_of(client, index, identifier))
