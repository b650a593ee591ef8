"""Departures: who reads a company alone must hear that a record is another company's now.

A departure is a tombstone of its own beside the record (`mappings.document.departure_id`), one for each company that
the record has left. Of what is published, two things hold:

- a record that stood under one company and stands under another has left a departure that was stamped since;
- a record's stamp lies above those of all its departures, so that who reads several companies meets it last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from indexer.bulk import Write
from indexer.clocks import DEPARTED, PROVISIONAL, RETOLD
from indexer.copies import take_over, under, unsettle
from indexer.documents import departure
from indexer.pace import Pace
from indexer.scan import fetch, look_up, rows
from mappings.document import Reason, departure_id, is_departure, split_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from typing import TypeAlias

    from indexer.bulk import Sender
    from indexer.catch_up import Kept
    from indexer.documents import Draft
    from indexer.engine import Engine
    from indexer.scan import Row
    from indexer.writer import Writer

    Known: TypeAlias = Row | Kept
    Move: TypeAlias = tuple[Known, Row]  # as readers know a record, as it stands under another company


def name(left: Known) -> str:
    """Return the id of the departure of what is known."""
    return departure_id(left.company, left.id)


def leaving(left: Known, company: str, state: tuple[int, int]) -> Draft:
    """Return the departure of what is known to another company, where it is in a state of a version and a content.

    What was a tombstone stays what it was: not everybody may have heard of it yet.
    """
    without = Reason.DELETED if left.deleted else Reason.MOVED
    return departure(left.id, left.company, company, Reason(left.reason) if left.reason else without, state)


def caused(left: Row, draft: Draft, known: Mapping[str, Row]) -> Draft:
    """Return the departure that a draft of another company causes; `known` may have the one that it replaces."""
    former = known.get(name(left))
    version = draft.version if former is None else max(draft.version, former.version)
    return leaving(left, draft.company, (version, draft.content))


def version_above(version: int, known: Row | None) -> int:
    """Return a version of a departure that replaces the one that is known, whatever has become of the record since."""
    return version if known is None else max(version, known.version + 1)


async def departed(engine: Engine, moves: Iterable[Move], index: str) -> list[Write]:
    """Return the departures of a rebuild; `index` holds those of earlier moves that they must replace."""
    found = list(moves)
    known = await look_up(engine, index, [name(left) for left, _ in found]) if found else {}
    drafts = [
        leaving(left, now.company, (version_above(now.version, known.get(name(left))), now.content))
        for left, now in found
    ]
    return [Write(draft.id, draft.version, draft.source(0, DEPARTED)) for draft in drafts]


async def straighten(engine: Engine, index: str, sender: Sender) -> bool:
    """Bring the departures of an index that wait for a stamp in line with what has become of their records.

    A record may have gone on since, by what was replayed: then it is told where to. And it must wait too, behind its
    departures. Return whether anything had to be written; the index is refreshed before.
    """
    has_any = False
    async for page in _departures(engine, index, {"gte": PROVISIONAL}):
        has_any = True
        await take_over(sender, [_redirected(row, now.company) for row, now in page])
        await unsettle(engine, index, {now.id: RETOLD for row, now in page if now.sequence <= row.sequence}, sender)
    return has_any


def _redirected(row: Row, company: str) -> Write:
    """Return the write by which a departure leads to another company and keeps its place."""
    left, identifier = split_id(row.id)
    state = row.version, row.content
    draft = departure(identifier, left, company, Reason(row.reason or Reason.MOVED), state)
    return Write(draft.id, draft.version, draft.source(0, row.sequence))


async def make_up(writer: Writer, above: int) -> None:
    """Tell again of records that a run which died has told the departure of, stamped `above`, and then did not move."""
    async for page in _departures(writer.engine, writer.live, {"gt": above}):
        if untold := {now.id for row, now in page if now.sequence < row.sequence}:
            await tell_again(writer, untold)


async def tell_again(writer: Writer, identifiers: Iterable[str]) -> None:
    """Give what is live of some records a stamp above everything else, and make it visible."""
    await writer.lifecycle.refresh(writer.live)
    found = await fetch(writer.engine, writer.live, sorted(identifiers))
    sender = writer.sender(Pace(writer.engine.settings))
    await take_over(sender, [under(document, *writer.stamps.fresh()) for document in found])
    await writer.lifecycle.refresh(writer.live)


async def _departures(engine: Engine, index: str, sequences: Mapping[str, int]) -> AsyncIterator[list[tuple[Row, Row]]]:
    """Yield the departures in a range of sequences, each with its record."""
    query: dict[str, Any] = {"bool": {"filter": [{"term": {"deleted": True}}, {"range": {"sequence": sequences}}]}}
    async for page in rows(engine, index, query=query):
        owners = {row.id: split_id(row.id)[1] for row in page if is_departure(row.id)}
        known = await look_up(engine, index, sorted({*owners.values()})) if owners else {}
        if found := [(row, known[owners[row.id]]) for row in page if owners.get(row.id) in known]:
            yield found
