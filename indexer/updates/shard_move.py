"""Writes of updates to an index of several shards: a record whose feed key changes may change its shard."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from indexer.changes.document_copies import write_all
from indexer.changes.shard_crossings import Crossing, KnownIntervals
from indexer.changes.stamps import Stamp
from indexer.changes.write_session import WriteSession
from indexer.context import IndexerContext
from indexer.indices.bulk import BulkResult, BulkSender, BulkWrite
from indexer.indices.bulk_deletes import delete_documents
from indexer.indices.refreshes import refresh_all_copies
from indexer.indices.scan import fetch_documents, look_up_rows
from indexer.indices.search_hits import StoredDocument
from indexer.updates.update_result import PlannedWrite
from mappings.stored_document import feed_key, stored_feed_key


@dataclass
class ShardMove:
    """One batch of updates: `prepare`, then `send`. For an index of one shard it is a plain bulk request."""

    session: WriteSession
    sender: BulkSender
    _left: dict[str, StoredDocument] = field(default_factory=dict)
    _known: dict[str, KnownIntervals] = field(default_factory=dict)

    async def prepare(self, planned: Mapping[str, tuple[PlannedWrite, Stamp]]) -> None:
        """Read the copies that records leave, and hide them from the sequences of their stamps on."""
        crossings, session = self.session.crossings, self.session
        keys = {name: feed_key(write.document.company, name) for name, (write, _) in planned.items()}
        known = {name: write.known for name, (write, _) in planned.items() if write.known}
        crossing = [name for name, row in known.items() if crossings.crosses(row.feed_key, keys[name])]
        if not crossing:
            return
        await session.lifecycle.refresh(session.live)
        for copy in await fetch_documents(session.context, session.live, crossing):
            clock, sequence = planned[copy.id][1]
            self._left[copy.id] = copy
            self._known[copy.id] = crossings.enter(Crossing(sequence, clock, copy, keys[copy.id]))

    async def send(self, writes: Sequence[BulkWrite]) -> BulkResult:
        """Write the documents, then mark the copies that they leave; raise as `BulkSender.send`."""
        crossings = self.session.crossings
        result = await self.sender.send([crossings.shown(write) for write in writes])
        for write, _ in result.rejected:
            if self._left.pop(write.id, None) is not None:
                crossings.withdraw(write.id, self._known[write.id])
        await write_all(self.sender, [crossings.left_write(copy) for copy in self._left.values()])
        crossings.unmarked -= self._left.keys()
        return result


async def without_older(context: IndexerContext, sender: BulkSender, writes: list[BulkWrite]) -> list[BulkWrite]:
    """Return the writes that are newer than the copy of the record in another shard, which is deleted.

    For a generation from which no reader is served.
    """
    if not sender.ranges.is_routed:
        return writes
    await refresh_all_copies(context.client, sender.index, context.settings.retry_seconds)
    shard, known = sender.ranges.shard, await look_up_rows(context, sender.index, [write.id for write in writes])
    elsewhere = {
        write.id: known[write.id]
        for write in writes
        if write.id in known and shard(known[write.id].feed_key) != shard(stored_feed_key(write.source))
    }
    newer = [
        write for write in writes if write.id not in elsewhere or write.version > elsewhere[write.id].stored_version
    ]
    await delete_documents(sender, [elsewhere[write.id] for write in newer if write.id in elsewhere])
    return newer
