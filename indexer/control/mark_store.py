"""The published mark of one resource, with optimistic concurrency control.

Each lock holder rewrites the mark of its predecessor before it assigns stamps. From then on a mark from an earlier
holder is rejected, whatever the clocks say, because it was to replace another version.
"""

from typing import Any

import msgspec
from elasticsearch import ConflictError, NotFoundError

from cluster.control_index import Mark, mark_id, publish_mark
from indexer.context import IndexerContext
from indexer.errors import LockedError
from indexer.indices.backoff import retry

_Condition = dict[str, Any]


class MarkStore:
    """Reads and publishes a mark on behalf of a lock `token`; 0 is the first build, which has none."""

    def __init__(self, context: IndexerContext, alias: str, token: int = 0) -> None:
        self._context = context
        self._alias = alias
        self._token = token
        self._condition: _Condition = {"op_type": "create"}

    async def read(self) -> Mark | None:
        """Return the mark, None before the first one. The next publication replaces this version only."""
        mark, _ = await self._read()
        return mark

    async def claim(self) -> Mark | None:
        """Return the mark, and prevent earlier holders from publishing."""
        while (mark := await self.read()) is not None:
            try:
                await self._write_with_retry(mark)
            except ConflictError:
                continue
            break
        return mark

    async def publish(self, mark: Mark) -> None:
        """Publish a mark, after a successful refresh and, if there is one, after the swap.

        Raises LockedError if another holder has claimed the mark or published one.
        """
        try:
            await self._write_with_retry(mark)
        except ConflictError:
            if await self._read() != (mark, self._token):  # otherwise only the response was lost
                raise LockedError("The lock was lost to another run, which has published since.") from None

    async def _read(self) -> tuple[Mark | None, int]:
        index = self._context.connection.control_index
        try:
            response = await self._context.client.get(index=index, id=mark_id(self._alias))
        except NotFoundError:
            return None, 0
        self._condition = _condition(response)
        source = response["_source"]
        return msgspec.convert(source, Mark), source.get("holder", 0)

    async def _write_with_retry(self, mark: Mark) -> None:
        await retry(lambda: self._write(mark), self._context.settings.retry_seconds)

    async def _write(self, mark: Mark) -> None:
        index = self._context.connection.control_index
        client, holder = self._context.client, self._token
        response = await publish_mark(client, index, self._alias, mark, holder=holder, **self._condition)
        self._condition = _condition(response)


def _condition(response: Any) -> _Condition:
    return {"if_seq_no": response["_seq_no"], "if_primary_term": response["_primary_term"]}
