"""Reads and writes the documents of a shared build, each under the condition that it has not changed since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from indexer.control.control_documents import read_documents
from indexer.errors import IndexerError
from indexer.indices.backoff import retry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from indexer.context import IndexerContext

Content = TypeVar("Content")


class Found(NamedTuple):
    """A document and its version."""

    source: Mapping[str, Any]
    seq_no: int
    primary_term: int

    @property
    def condition(self) -> dict[str, Any]:
        """The condition that the document has not changed since."""
        return {"if_seq_no": self.seq_no, "if_primary_term": self.primary_term}

    def read(self, kind: type[Content]) -> Content:
        """Return the content; raise IndexerError if it has another shape."""
        try:
            return msgspec.convert(self.source, kind)
        except msgspec.ValidationError as error:
            raise IndexerError(
                f"A document of a shared build cannot be read ({error}): use the same version on all hosts."
            ) from error


def _found(document: Mapping[str, Any]) -> Found:
    return Found(document["_source"], document["_seq_no"], document["_primary_term"])


@dataclass(frozen=True)
class SharedStore:
    """The documents in the control index."""

    context: IndexerContext

    async def read(self, ids: Sequence[str]) -> list[Found | None]:
        """Return documents in this order, None for each that does not exist."""
        found = await read_documents(self.context, ids)
        return [None if each is None else _found(each) for each in found]

    async def write(self, name: str, content: object) -> None:
        """Write a document, whatever it was before."""
        await self._write(name, content, {})

    async def replace(self, name: str, content: object, over: Found | None) -> Found:
        """Write a document over another, None for none; raise ConflictError if it has changed."""
        return await self._write(name, content, {"op_type": "create"} if over is None else over.condition)

    async def _write(self, name: str, content: object, condition: dict[str, Any]) -> Found:
        document: Any = msgspec.to_builtins(content)
        index, client = self.context.connection.control_index, self.context.client
        response = await retry(
            lambda: client.index(index=index, id=name, document=document, **condition),
            self.context.settings.retry_seconds,
        )
        return Found(document, response["_seq_no"], response["_primary_term"])

    async def delete(self, name: str, found: Found | None = None) -> None:
        """Delete a document if it exists; one that was `found`, only if it has not changed since."""
        index, client = self.context.connection.control_index, self.context.client.options(ignore_status=(404, 409))
        condition = {} if found is None else found.condition
        await retry(lambda: client.delete(index=index, id=name, **condition), self.context.settings.retry_seconds)
