"""Brings one generation up to what another has been told since: its writes are replayed in their own order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from indexer.bulk import Write
from indexer.clocks import PROVISIONAL
from indexer.errors import RefusedError
from indexer.scan import fetch, look_up, rows, stored
from mappings.document import restamped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indexer.bulk import Sender
    from indexer.engine import Engine
    from indexer.scan import Row, Stored
    from indexer.writer import Writer


class _Kept(msgspec.Struct):
    content: int
    sequence: int


_kept = msgspec.json.Decoder(_Kept).decode


async def replay(engine: Engine, origin: str, after: int, sender: Sender, index: str) -> None:
    """Copy every document of `origin` that was written behind the `_seq_no` `after`, unless `index` has a newer state.

    A newer state whose stamp is not that of the document waits for a new one from then on: whoever has seen what
    `origin` was told must be shown what came of it. What is written meanwhile may be missed: the last replay is made
    under the lock.
    """
    async for page in stored(engine, origin, query={"range": {"_seq_no": {"gt": after}}}, order="_seq_no"):
        known = await look_up(engine, index, [document.id for document in page])
        newer = [document for document in page if not _is_behind(document, known.get(document.id))]
        await take_over(sender, [_copy(document) for document in newer])
        # In front of all that wait by their place in the source.
        await _unsettle(engine, index, dict.fromkeys(_overruled(page, known), PROVISIONAL), sender)


def _copy(document: Stored) -> Write:
    return Write(document.id, document.version, document.source)


async def copies(engine: Engine, index: str, identifiers: list[str]) -> list[Write]:
    """Return the writes that bring given documents of an index into another as they are."""
    return [_copy(document) for document in await fetch(engine, index, identifiers)]


async def take_over(sender: Sender, writes: list[Write]) -> None:
    """Write what no source has; raise RefusedError where the engine would not take it, since it would be lost."""
    verdict = await sender.send(writes)
    for write, reason in verdict.refused:
        raise RefusedError(f"{write.id} cannot be taken over: {reason}. Nothing was swapped.")


def _is_behind(document: Stored, row: Row | None) -> bool:
    """States are ordered as in `indexer.fate`; of equal ones the copy is taken, for its stamp."""
    if row is None or document.version > row.version:
        return False
    return document.version < row.version or _kept(document.source).content < row.content


def _overruled(page: list[Stored], known: dict[str, Row]) -> list[str]:
    """Return the records whose newer state carries another stamp than what `origin` was told meanwhile."""
    behind = [(document, row) for document in page if (row := known.get(document.id)) and _is_behind(document, row)]
    return [
        row.id
        for document, row in behind
        if row.sequence < PROVISIONAL and row.sequence != _kept(document.source).sequence
    ]


async def _unsettle(engine: Engine, index: str, places: Mapping[str, int], sender: Sender) -> None:
    """Let documents of `index` wait for a stamp, each in its place."""
    found = await fetch(engine, index, list(places))
    await take_over(sender, [_under(document, 0, places[document.id]) for document in found])


def _under(document: Stored, clock: int, sequence: int) -> Write:
    return Write(document.id, document.version, restamped(document.source, clock, sequence))


async def restamp(engine: Engine, candidate: str, writer: Writer, sender: Sender) -> None:
    """Give what waits for a stamp one above everything published, in the order of the source."""
    waiting = {"range": {"sequence": {"gte": PROVISIONAL}}}
    async for page in stored(engine, candidate, query=waiting, order="sequence"):
        await take_over(sender, [_under(document, *writer.stamps.fresh()) for document in page])


async def overtaken(engine: Engine, candidate: str, live: str, sender: Sender, above: int) -> None:
    """Let wait again what an interrupted run had stamped for its swap: `live` may have been given more since.

    Stamps above `above` are either copies of what is live, and then equal to it, or such left-overs. Their places keep
    the order of their stamps and lie in front of what had got none: as many lines at least stand before that.
    """
    given = {"range": {"sequence": {"gt": above, "lt": PROVISIONAL}}}
    async for page in rows(engine, candidate, query=given):
        known = await look_up(engine, live, [row.id for row in page])
        left = [row for row in page if _stamp(known.get(row.id)) != _stamp(row)]
        await _unsettle(engine, candidate, {row.id: PROVISIONAL + row.sequence - above for row in left}, sender)


def _stamp(row: Row | None) -> tuple[int, int] | None:
    return None if row is None else (row.version, row.sequence)
