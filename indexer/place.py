"""How far an update has come in its source, kept in the control index: a killed run is gone on with."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from elasticsearch import NotFoundError

if TYPE_CHECKING:
    from indexer.engine import Engine


class Place:
    """The number of lines of one source that are visible. Standard input has no identity, so no place is kept."""

    def __init__(self, engine: Engine, identity: str | None) -> None:
        """`identity` tells the source and its content from all others."""
        self._client = engine.client.options(ignore_status=404)
        self._index = engine.connection.control_index
        self._id = None if identity is None else f"update-{hashlib.sha256(identity.encode()).hexdigest()[:32]}"

    async def read(self) -> int:
        """Return the number of lines that an earlier run has made visible."""
        if self._id is None:
            return 0
        try:
            answer = await self._client.get(index=self._index, id=self._id)
        except NotFoundError:
            return 0
        return int(answer["_source"]["lines"]) if answer.get("found") else 0

    async def write(self, lines: int) -> None:
        """Write down that this many lines are visible."""
        if self._id is not None:
            await self._client.index(index=self._index, id=self._id, document={"lines": lines})

    async def clear(self) -> None:
        """Forget a source that was read to its end."""
        if self._id is not None:
            await self._client.delete(index=self._index, id=self._id)
