"""The copies that records have left in other shards, once no reader needs them any more."""

from collections.abc import AsyncIterator

from indexer.changes.shard_crossings import REMEMBERED_MILLISECONDS
from indexer.clock import now_milliseconds
from indexer.context import IndexerContext
from indexer.indices.scan import look_up_rows, scan_rows
from indexer.indices.search_hits import IndexRow
from mappings.shards.ranges import ShardRanges


async def needless_copies(
    context: IndexerContext, live: str, ranges: ShardRanges, published: int
) -> AsyncIterator[list[IndexRow]]:
    """Yield the left copies of records whose present copy has been visible to every reader for some time.

    `published` is the sequence of the last mark. A record that is gone altogether needs none of its copies.
    """
    if not ranges.is_routed:
        return
    oldest = now_milliseconds() - REMEMBERED_MILLISECONDS
    async for page in scan_rows(context, live, of_left=True):
        present = await look_up_rows(context, live, sorted({row.id for row in page}))
        unsettled = {row.id for row in present.values() if row.clock >= oldest or row.sequence > published}
        if needless := [row for row in page if row.id not in unsettled]:
            yield needless
