"""Replays the writes of one generation into another, in their original order."""

from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

from msgspec import structs

from indexer.bulk import BulkSender, BulkWrite
from indexer.changes.rewrites import (
    StoredState,
    copy_write,
    rebuild_moves,
    redirect_moves,
    restamped_write,
    stored_state,
    write_all,
    write_over,
)
from indexer.changes.stamps import PENDING, PENDING_SUPERSEDED, is_outdated, kept_past, remember
from indexer.changes.write_session import WriteSession
from indexer.clock import UNDATED, first_future_version
from indexer.documents.companies import ALL_COMPANIES, Coverage
from indexer.generations.lifecycle import shard_numbers
from indexer.scan import IndexRow, StoredDocument, fetch_documents, look_up_rows, scan_documents, scan_rows
from indexer.settings import IndexerContext
from mappings import Resource
from mappings.stored_document import CREATED, is_move, reopened_changes, replace_past, replace_stamp


class ReplayOrigin(NamedTuple):
    """A generation of which the writes after the `_seq_no` of each shard are replayed, of some companies or of all."""

    generation: str
    after: list[int]
    companies: Coverage = ALL_COMPANIES

    async def documents(self, context: IndexerContext) -> AsyncIterator[list[StoredDocument]]:
        for after, shard in zip(self.after, shard_numbers(self.after), strict=True):
            query = {"bool": {"filter": [{"range": {"_seq_no": {"gt": after}}}, self.companies.query]}}
            async for page in scan_documents(context, self.generation, query=query, order="_seq_no", shard=shard):
                yield page


async def replay(  # noqa: PLR0913 - from where to where, and what `index` may replace
    context: IndexerContext,
    resource: Resource,
    origin: ReplayOrigin,
    sender: BulkSender,
    index: str,
    *,
    covered: Coverage = ALL_COMPANIES,
) -> None:
    """Copy the documents of `origin`, unless `index` has a newer state; a live record that is not covered always.

    Of equal states the copy is taken, for its stamp.

    A newer state with another stamp becomes pending again, since consumers that have seen the state in `origin` must
    receive the newer one, and a move if its company differs. Writes made during the replay may be missed, so the last
    replay runs under the lock.
    """
    async for page in origin.documents(context):
        known = await look_up_rows(context, index, [document.id for document in page])
        first_future = first_future_version(context.settings.future_seconds)
        states = {document.id: _state(document, first_future) for document in page if document.id in known}
        stale = {
            key
            for key, state in states.items()
            if is_outdated(state, known[key]) and (state.deleted or covered.includes(state.company))
        }
        copied = [document for document in page if document.id not in stale]
        copies = [copy_write(resource, document, known.get(document.id)) for document in copied]
        await write_over(sender, copies, known)
        superseded = [(states[document.id], known[document.id]) for document in page if document.id in stale]
        await write_all(sender, await rebuild_moves(context, _moved_since(superseded), index))
        restamped = {
            document.id: (known[document.id], document)
            for document in page
            if document.id in stale and known[document.id].sequence != states[document.id].sequence
        }
        await _write_superseding(context, resource, index, restamped, sender)


def _state(document: StoredDocument, first_future: int) -> StoredState:
    state = stored_state(document.source)[0]
    return state if state.version < first_future else structs.replace(state, version=UNDATED)


def _moved_since(superseded: list[tuple[StoredState, IndexRow]]) -> list[tuple[StoredState, IndexRow]]:
    """Return the records that had another company in `origin` than in their newer state."""
    return [(state, row) for state, row in superseded if state.company != row.company and not is_move(row.id)]


async def _write_superseding(
    context: IndexerContext,
    resource: Resource,
    index: str,
    superseded: Mapping[str, tuple[IndexRow, StoredDocument]],
    sender: BulkSender,
) -> None:
    """Write the newer states again, pending, and compared with the states that consumers have seen."""
    writes = []
    for document in await fetch_documents(context, index, list(superseded)):
        row, origin = superseded[document.id]
        stamp = (row.clock, row.sequence) if row.sequence >= PENDING else (0, PENDING_SUPERSEDED)
        state, parts = stored_state(document.source)
        known, before = stored_state(origin.source)
        past, changed = ("", CREATED) if state.deleted else remember(resource, state, parts, known, before)
        source = replace_past(document.source, kept_past(context, past))
        writes.append(BulkWrite(document.id, document.version, replace_stamp(source, *stamp, changed)))
    await write_all(sender, writes)


async def assign_pending_stamps(
    context: IndexerContext, candidate: str, session: WriteSession, sender: BulkSender
) -> None:
    """Stamp all pending documents above everything published, in the order of the source."""
    if await redirect_moves(context, candidate, sender):
        await session.lifecycle.refresh(candidate)
    pending = {"range": {"sequence": {"gte": PENDING}}}
    async for page in scan_documents(context, candidate, query=pending, order="sequence"):
        await write_all(sender, [restamped_write(document, *session.stamps.next_stamp()) for document in page])


async def reset_stale_stamps(
    context: IndexerContext, candidate: str, live: str, sender: BulkSender, above: int
) -> None:
    """Make pending again what an interrupted run had stamped for its swap: `live` may have published more since.

    Stamps above `above` either equal those of the live documents or are left over from that run. The new pending
    positions keep the order of the left-over stamps and come before those of the documents not yet stamped.
    """
    stamped = {"range": {"sequence": {"gt": above, "lt": PENDING}}}
    async for page in scan_rows(context, candidate, query=stamped):
        known = await look_up_rows(context, live, [row.id for row in page])
        stale = [row for row in page if _stamp(known.get(row.id)) != _stamp(row)]
        positions = {row.id: PENDING + row.sequence - above for row in stale}
        documents = await fetch_documents(context, candidate, list(positions))
        writes = [
            restamped_write(document, 0, positions[document.id], reopened_changes(document.source))
            for document in documents
        ]
        await write_all(sender, writes)


def _stamp(row: IndexRow | None) -> tuple[int, int] | None:
    return None if row is None else (row.version, row.sequence)
