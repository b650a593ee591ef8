"""What was last done to a resource, kept in the control index for `index status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from elasticsearch import NotFoundError

if TYPE_CHECKING:
    from indexer.engine import Engine


class Entry(msgspec.Struct, frozen=True):
    """The last build or update of a resource. Times are milliseconds since 1970.

    `newest` is the latest `updated_at` that it applied, so that `at` - `newest` is how far what is served is behind its
    source.
    """

    verb: str
    at: int
    newest: int
    read: int
    dead: int
    dead_letters: str | None


async def enter(engine: Engine, alias: str, entry: Entry) -> None:
    """Write down what was done."""
    index, document = engine.connection.control_index, msgspec.to_builtins(entry)
    await engine.client.index(index=index, id=f"last-{alias}", document=document)


async def last(engine: Engine, alias: str) -> Entry | None:
    """Return what was last done, None where nothing was."""
    try:
        answer = await engine.client.get(index=engine.connection.control_index, id=f"last-{alias}")
    except NotFoundError:
        return None
    return msgspec.convert(answer["_source"], Entry)
