"""Brings one generation up to what another has been told since: its writes are replayed in their own order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from indexer.clocks import OVERRULED, PROVISIONAL
from indexer.copies import copy, take_over, under, unsettle
from indexer.departures import departed, straighten
from indexer.scan import look_up, rows, stored
from mappings.document import is_departure

if TYPE_CHECKING:
    from indexer.bulk import Sender
    from indexer.engine import Engine
    from indexer.scan import Row, Stored
    from indexer.writer import Writer


class Kept(msgspec.Struct):
    """What a stored document says of itself."""

    id: str
    company: str
    content: int
    deleted: bool
    sequence: int
    reason: str | None = None


_kept = msgspec.json.Decoder(Kept).decode


async def replay(engine: Engine, origin: str, after: int, sender: Sender, index: str) -> None:
    """Copy every document of `origin` that was written behind the `_seq_no` `after`, unless `index` has a newer state.

    A newer state whose stamp is not that of the document waits for a new one from then on: whoever has seen what
    `origin` was told must be shown what came of it, and a departure where it is another company's now. What is written
    meanwhile may be missed: the last replay is made under the lock.
    """
    async for page in stored(engine, origin, query={"range": {"_seq_no": {"gt": after}}}, order="_seq_no"):
        known = await look_up(engine, index, [document.id for document in page])
        behind = [(document, row) for document in page if (row := known.get(document.id)) and _is_behind(document, row)]
        old = {document.id for document, _ in behind}
        await take_over(sender, [copy(document) for document in page if document.id not in old])
        overruled = [(_kept(document.source), row) for document, row in behind]
        await take_over(sender, await departed(engine, _moves(overruled), index))
        await unsettle(engine, index, dict.fromkeys(_waiting(overruled), OVERRULED), sender)


def _is_behind(document: Stored, row: Row) -> bool:
    """States are ordered as in `indexer.fate`; of equal ones the copy is taken, for its stamp."""
    if document.version != row.version:
        return document.version < row.version
    return _kept(document.source).content < row.content


def _moves(overruled: list[tuple[Kept, Row]]) -> list[tuple[Kept, Row]]:
    """Return the records of which `origin` was told another company than that of their newer state."""
    return [(told, row) for told, row in overruled if told.company != row.company and not is_departure(row.id)]


def _waiting(overruled: list[tuple[Kept, Row]]) -> list[str]:
    """Return the documents whose newer state carries another stamp than what `origin` was told meanwhile."""
    return [row.id for told, row in overruled if row.sequence < PROVISIONAL and row.sequence != told.sequence]


async def restamp(engine: Engine, candidate: str, writer: Writer, sender: Sender) -> None:
    """Give what waits for a stamp one above everything published, in the order of the source."""
    if await straighten(engine, candidate, sender):
        await writer.lifecycle.refresh(candidate)
    waiting = {"range": {"sequence": {"gte": PROVISIONAL}}}
    async for page in stored(engine, candidate, query=waiting, order="sequence"):
        await take_over(sender, [under(document, *writer.stamps.fresh()) for document in page])


async def overtaken(engine: Engine, candidate: str, live: str, sender: Sender, above: int) -> None:
    """Let wait again what an interrupted run had stamped for its swap: `live` may have been given more since.

    Stamps above `above` are either copies of what is live, and then equal to it, or such left-overs. Their places keep
    the order of their stamps and lie in front of what had got none: as many lines at least stand before that.
    """
    given = {"range": {"sequence": {"gt": above, "lt": PROVISIONAL}}}
    async for page in rows(engine, candidate, query=given):
        known = await look_up(engine, live, [row.id for row in page])
        left = [row for row in page if _stamp(known.get(row.id)) != _stamp(row)]
        await unsettle(engine, candidate, {row.id: PROVISIONAL + row.sequence - above for row in left}, sender)


def _stamp(row: Row | None) -> tuple[int, int] | None:
    return None if row is None else (row.version, row.sequence)
