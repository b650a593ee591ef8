"""Documents of one generation written into another, or again under another stamp, as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.bulk import Write
from indexer.errors import RefusedError
from indexer.scan import fetch
from mappings.document import restamped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indexer.bulk import Sender
    from indexer.engine import Engine
    from indexer.scan import Stored


def copy(document: Stored) -> Write:
    """Return the write that brings a document into another index as it is."""
    return Write(document.id, document.version, document.source)


async def copies(engine: Engine, index: str, identifiers: list[str]) -> list[Write]:
    """Return the writes that bring given documents of an index into another as they are."""
    return [copy(document) for document in await fetch(engine, index, identifiers)]


def under(document: Stored, clock: int, sequence: int) -> Write:
    """Return the write that brings a document under another stamp."""
    return Write(document.id, document.version, restamped(document.source, clock, sequence))


async def take_over(sender: Sender, writes: list[Write]) -> None:
    """Write what no source has; raise RefusedError where the engine would not take it, since it would be lost."""
    verdict = await sender.send(writes)
    for write, reason in verdict.refused:
        raise RefusedError(f"{write.id} cannot be taken over: {reason}. Nothing was swapped.")


async def unsettle(engine: Engine, index: str, places: Mapping[str, int], sender: Sender) -> None:
    """Let documents of `index` wait for a stamp, each in its place."""
    found = await fetch(engine, index, list(places))
    await take_over(sender, [under(document, 0, places[document.id]) for document in found])
