"""What a full source lacks: records become tombstones; tombstones and what is newer than the source stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.bulk import Write
from indexer.catch_up import copies, take_over
from indexer.clocks import VANISHED
from indexer.documents import tombstone
from indexer.scan import look_up, rows
from indexer.tombstones import is_expired
from mappings.document import Reason

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from indexer.bulk import Sender
    from indexer.checkpoint import Progress
    from indexer.engine import Engine
    from indexer.scan import Row

_TOGETHER = 500


async def reconcile(engine: Engine, progress: Progress, sender: Sender) -> None:
    """Write into the candidate what the live generation holds beyond the source.

    A record is carried over where it is newer than the source. Records that came or changed since the build began are
    left to the catch-up.
    """
    if progress.live is None:
        return
    async for lacking in _lacking(engine, progress.live, progress):
        gone = [row for row in lacking if not row.deleted and row.version >> 10 <= progress.taken_at]
        kept = [row for row in lacking if row.deleted or row.version >> 10 > progress.taken_at]
        writes = await copies(engine, progress.live, [row.id for row in kept if not is_expired(engine, row)])
        await take_over(sender, [*writes, *map(_vanished, gone)])


def _vanished(row: Row) -> Write:
    """Return the tombstone of a record that the source lacks: just above the record, below whatever is newer.

    All wait in one place, in the order of their feed keys, whichever run has written them.
    """
    company = row.feed_key.partition(":")[0]
    draft = tombstone(row.id, company, row.version >> 10, Reason.VANISHED)
    return Write(draft.id, draft.version, draft.source(0, VANISHED), draft)


async def _lacking(engine: Engine, live: str, progress: Progress) -> AsyncIterator[list[Row]]:
    """Yield what the candidate lacks of the live generation as it was when the build began, some hundreds at a time."""
    suspects: list[Row] = []
    async for row in _unmatched(engine, live, progress):
        suspects.append(row)
        if len(suspects) >= _TOGETHER:
            yield await _absent(engine, progress.candidate, suspects)
            suspects = []
    if suspects:
        yield await _absent(engine, progress.candidate, suspects)


async def _absent(engine: Engine, candidate: str, suspects: list[Row]) -> list[Row]:
    """Leave out records that stand under another company's feed key now."""
    found = await look_up(engine, candidate, [row.id for row in suspects])
    return [row for row in suspects if row.id not in found]


async def _unmatched(engine: Engine, live: str, progress: Progress) -> AsyncIterator[Row]:
    """Walk both generations in the order of their feed keys and yield the live one's rows without a partner."""
    partners = _each(engine, progress.candidate)
    partner = await anext(partners, None)
    before = {"range": {"_seq_no": {"lte": progress.follows}}}
    async for page in rows(engine, live, query=before):
        for row in page:
            while partner is not None and partner.feed_key < row.feed_key:
                partner = await anext(partners, None)
            if partner is None or partner.feed_key != row.feed_key:
                yield row


async def _each(engine: Engine, index: str) -> AsyncIterator[Row]:
    async for page in rows(engine, index):
        for row in page:
            yield row
