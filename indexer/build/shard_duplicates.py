"""Records that a loaded candidate has in several shards: a source names them with several companies.

Within a shard, Elasticsearch reports a record that is written twice. Between shards nothing does, so the identifiers
are compared bucket by bucket (`mappings.digest`).
"""

from indexer.context import IndexerContext
from indexer.indices.bulk import BulkSender
from indexer.indices.bulk_deletes import delete_documents
from indexer.indices.lifecycle import GenerationLifecycle
from indexer.indices.scan import scan_rows
from indexer.indices.search_hits import IndexRow
from mappings.digest import BUCKETS

_ROWS_AT_ONCE = 5_000


async def remove_shard_duplicates(
    context: IndexerContext, lifecycle: GenerationLifecycle, index: str, sender: BulkSender
) -> set[str]:
    """Delete all but the newest document of each record, and return the identifiers of those that had several.

    The index must be refreshed, and is again afterwards.
    """
    if not sender.ranges.is_routed:
        return set()
    found = set[str]()
    width = max(1, BUCKETS * _ROWS_AT_ONCE // max(1, await lifecycle.count(index)))
    for first in range(0, BUCKETS, width):
        older = older_copies(await _rows(context, index, first, width))
        await delete_documents(sender, older)
        found.update(row.id for row in older)
    if found:
        await lifecycle.refresh(index)
    return found


async def _rows(context: IndexerContext, index: str, first: int, width: int) -> list[IndexRow]:
    query = {"range": {"bucket": {"gte": first, "lt": first + width}}}
    return [row async for page in scan_rows(context, index, query=query) for row in page]


def older_copies(rows: list[IndexRow]) -> list[IndexRow]:
    """Return all rows but the newest of each record; of equal versions that with the greater content is newer."""
    newest: dict[str, IndexRow] = {}
    older: list[IndexRow] = []
    for row in rows:
        other = newest.setdefault(row.id, row)
        if other is not row:
            low, high = sorted((other, row), key=lambda each: (each.stored_version, each.content))
            newest[row.id] = high
            older.append(low)
    return older
