"""The mark of one resource, as one holder of the right to write keeps it.

Each holder writes over the mark that the one before has published before it stamps anything. From then on nothing that
an earlier holder still sends is taken, whatever the clocks say: its mark was to replace another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from elasticsearch import ConflictError, NotFoundError

from cluster.control import Mark, mark_id, publish_mark
from indexer.errors import LockedError
from indexer.retry import patiently

if TYPE_CHECKING:
    from indexer.engine import Engine

_Condition = dict[str, Any]


class MarkKeeper:
    """Reads and publishes a mark, in the name of a `token` of the lock; 0 is the first build, which holds none."""

    def __init__(self, engine: Engine, alias: str, token: int = 0) -> None:
        """Nothing is read yet."""
        self._engine = engine
        self._alias = alias
        self._token = token
        self._over: _Condition = {"op_type": "create"}

    async def read(self) -> Mark | None:
        """Return the mark, None before the first one; what is published next replaces it and no other."""
        mark, _ = await self._read()
        return mark

    async def claim(self) -> Mark | None:
        """Return the mark, and let no earlier holder publish another from now on."""
        while (mark := await self.read()) is not None:
            try:
                await self._written(mark)
            except ConflictError:
                continue
            break
        return mark

    async def publish(self, mark: Mark) -> None:
        """Publish a mark. Only after a successful refresh, and the swap where there is one.

        Raises LockedError where another holder has claimed the mark, or published one.
        """
        try:
            await self._written(mark)
        except ConflictError:
            if await self._read() != (mark, self._token):  # else it was done, and only the answer was lost
                raise LockedError("The lock was lost to another run, which has published since.") from None

    async def _read(self) -> tuple[Mark | None, int]:
        index = self._engine.connection.control_index
        try:
            answer = await self._engine.client.get(index=index, id=mark_id(self._alias))
        except NotFoundError:
            return None, 0
        self._over = _over(answer)
        source = answer["_source"]
        return msgspec.convert(source, Mark), source.get("holder", 0)

    async def _written(self, mark: Mark) -> None:
        await patiently(lambda: self._write(mark), self._engine.settings.retry_seconds)

    async def _write(self, mark: Mark) -> None:
        index = self._engine.connection.control_index
        client, holder = self._engine.client, self._token
        answer = await publish_mark(client, index, self._alias, mark, holder=holder, **self._over)
        self._over = _over(answer)


def _over(answer: Any) -> _Condition:
    return {"if_seq_no": answer["_seq_no"], "if_primary_term": answer["_primary_term"]}
