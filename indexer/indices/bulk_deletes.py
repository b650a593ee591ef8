"""Deletion of documents, each in the shard of its feed key."""

from collections.abc import Sequence

import orjson

from indexer.errors import ElasticsearchError, error_reason
from indexer.indices.backoff import retry
from indexer.indices.bulk import BULK_HEADERS, BulkSender, routing_member
from indexer.indices.search_hits import IndexRow

_BATCH = 1_000
_ACTION = b'{"delete":{"_id":%b,"version":%d,"version_type":"external_gte"%b}}\n'


async def delete_documents(sender: BulkSender, rows: Sequence[IndexRow]) -> None:
    """Delete documents of the sender's index; one that is gone already counts as deleted.

    Each keeps its version: a later write needs at least the same. Raises ElasticsearchError if one cannot be deleted,
    for example because another run has removed the alias.
    """
    for at in range(0, len(rows), _BATCH):
        await _delete(sender, rows[at : at + _BATCH])


async def _delete(sender: BulkSender, rows: Sequence[IndexRow]) -> None:
    actions = [
        _ACTION % (orjson.dumps(row.id), row.stored_version, routing_member(sender.ranges, row.feed_key))
        for row in rows
    ]
    fence = "&require_alias=true" if sender.is_fenced else ""
    path = f"/{sender.index}/_bulk?filter_path=errors,items.*.error{fence}"
    send, body = sender.client.perform_request, b"".join(actions)
    response = await retry(lambda: send("POST", path, headers=BULK_HEADERS, body=body), sender.retry_seconds)
    if response.body["errors"]:
        refused = next(item["delete"] for item in response.body["items"] if item)
        raise ElasticsearchError(f"Elasticsearch did not delete a document: {error_reason(refused)}.")
