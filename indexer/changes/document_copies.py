"""Copies stored documents into another generation, or rewrites them under another stamp, as bytes."""

from collections.abc import Mapping

from indexer.clock import REPLACED_VERSION_GAP
from indexer.context import IndexerContext
from indexer.documents.content_hashes import restricted_hashes
from indexer.documents.search_values import missing_values
from indexer.errors import RefusedError
from indexer.indices.bulk import BulkSender, BulkWrite
from indexer.indices.bulk_deletes import delete_documents
from indexer.indices.scan import IndexRow, StoredDocument, fetch_documents
from mappings import Resource
from mappings.shards.visibility import unhide
from mappings.stored_document import replace_stamp, stored_feed_key


def copy_write(resource: Resource, document: StoredDocument, replaced: IndexRow | None = None) -> BulkWrite:
    """Return the write that copies a document; `replaced` is what it replaces, which may be undated.

    A document of an earlier version gets the hashes and search fields that it lacks.
    """
    version = document.version if replaced is None else version_over(document.version, replaced.stored_version)
    hashed = restricted_hashes(resource).complete(unhide(document.source))
    return BulkWrite(document.id, version, missing_values(resource).complete(hashed))


def version_over(version: int, replaced: int) -> int:
    """Return the version under which a state of `version` replaces a document that Elasticsearch has as `replaced`.

    Elasticsearch accepts none below it. It is never one more than the state's own, by which a document that another
    program wrote is recognized.
    """
    return version if replaced <= version else max(replaced, version + REPLACED_VERSION_GAP)


async def fetch_copies(
    context: IndexerContext, resource: Resource, index: str, identifiers: list[str]
) -> list[BulkWrite]:
    """Return the writes that copy the given documents of an index."""
    return [copy_write(resource, document) for document in await fetch_documents(context, index, identifiers)]


def restamped_write(document: StoredDocument, clock: int, sequence: int) -> BulkWrite:
    """Return the write that gives a document another stamp."""
    return BulkWrite(document.id, document.version, replace_stamp(document.source, clock, sequence))


async def write_all(sender: BulkSender, writes: list[BulkWrite]) -> None:
    """Write documents that no source can supply again; raise RefusedError if Elasticsearch rejects one."""
    result = await sender.send(writes)
    for write, reason in result.rejected:
        raise RefusedError(f"{write.id} cannot be copied: {reason}. Nothing was swapped.")


async def write_over(sender: BulkSender, writes: list[BulkWrite], known: Mapping[str, IndexRow]) -> None:
    """Write documents over those that a generation has of the same records, `known`; raise as `write_all`.

    Of a record whose copy is in another shard, that copy is deleted first. So readers must not be served from the
    generation, and a run that was killed must repeat its writes.
    """
    if sender.ranges.is_routed:
        shard = sender.ranges.shard
        before = ((known[write.id], write) for write in writes if write.id in known)
        moved = [row for row, write in before if shard(row.feed_key) != shard(stored_feed_key(write.source))]
        await delete_documents(sender, moved)
    await write_all(sender, writes)


async def requeue_for_stamp(
    context: IndexerContext, index: str, positions: Mapping[str, int], sender: BulkSender
) -> None:
    """Queue documents of `index` for a new stamp, each at its pending position."""
    documents = await fetch_documents(context, index, list(positions))
    await write_all(sender, [restamped_write(document, 0, positions[document.id]) for document in documents])
