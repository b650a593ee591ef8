"""What a full source lacks: records become tombstones; tombstones and what is newer than the source stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.bulk import Write
from indexer.clocks import VANISHED
from indexer.copies import copies, take_over
from indexer.departures import departed
from indexer.documents import tombstone
from indexer.scan import look_up, rows
from indexer.tombstones import is_expired
from mappings.document import Reason

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from indexer.bulk import Sender
    from indexer.checkpoint import Progress
    from indexer.departures import Move
    from indexer.engine import Engine
    from indexer.scan import Row

_TOGETHER = 500


async def reconcile(engine: Engine, progress: Progress, sender: Sender) -> None:
    """Write into the candidate what the live generation holds beyond the source.

    A record is carried over where it is newer than the source; one that the source has under another company leaves a
    departure. Records that came or changed since the build began are left to the catch-up.
    """
    if progress.live is None:
        return
    async for lacking, moves in _lacking(engine, progress.live, progress):
        gone = [row for row in lacking if not row.deleted and row.version >> 10 <= progress.taken_at]
        old = [row for row in lacking if is_expired(engine, row)]
        progress.forgotten = max([progress.forgotten, *(row.sequence for row in old)])
        left = {row.id for row in [*gone, *old]}
        kept = await copies(engine, progress.live, [row.id for row in lacking if row.id not in left])
        departures = await departed(engine, moves, progress.live)
        await take_over(sender, [*kept, *departures, *map(_vanished, gone)])


def _vanished(row: Row) -> Write:
    """Return the tombstone of a record that the source lacks: just above the record, below whatever is newer.

    All wait in one place, in the order of their feed keys, whichever run has written them.
    """
    draft = tombstone(row.id, row.company, row.version >> 10, Reason.VANISHED)
    return Write(draft.id, draft.version, draft.source(0, VANISHED), draft)


async def _lacking(engine: Engine, live: str, progress: Progress) -> AsyncIterator[tuple[list[Row], list[Move]]]:
    """Yield what the candidate lacks of the live generation as it was when the build began, some hundreds at a time.

    Beside it stands what the candidate has under the feed key of another company.
    """
    suspects: list[Row] = []
    async for row in _unmatched(engine, live, progress):
        suspects.append(row)
        if len(suspects) >= _TOGETHER:
            yield await _sorted(engine, progress.candidate, suspects)
            suspects = []
    if suspects:
        yield await _sorted(engine, progress.candidate, suspects)


async def _sorted(engine: Engine, candidate: str, suspects: list[Row]) -> tuple[list[Row], list[Move]]:
    found = await look_up(engine, candidate, [row.id for row in suspects])
    lacking = [row for row in suspects if row.id not in found]
    return lacking, [(row, now) for row in suspects if (now := found.get(row.id)) and now.company != row.company]


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
