"""The position of an update in its source, stored in the control index: an interrupted update resumes there."""

import hashlib
from collections.abc import Sequence
from functools import partial

from elasticsearch import NotFoundError

from indexer.context import IndexerContext
from indexer.indices.backoff import retry


class UpdateCheckpoint:
    """The number of published lines of one source. Standard input has no identity, so it has no checkpoint."""

    def __init__(self, context: IndexerContext, identity: str | None, lives: Sequence[str]) -> None:
        """`identity` is the fingerprint of the source and its content, `lives` are those of the live data."""
        self._lives = [*lives]
        self._client = context.client.options(ignore_status=404)
        self._seconds = context.settings.retry_seconds
        self._index = context.connection.control_index
        self._id = None if identity is None else f"update-{hashlib.sha256(identity.encode()).hexdigest()[:32]}"

    async def read(self) -> int:
        """Return the number of lines that an earlier run has published, 0 if their data were restored since."""
        if self._id is None:
            return 0
        try:
            response = await self._client.get(index=self._index, id=self._id)
        except NotFoundError:
            return 0
        if not response.get("found") or not {*response["_source"].get("lives", ())} <= {*self._lives}:
            return 0
        return int(response["_source"]["lines"])

    async def write(self, lines: int) -> None:
        """Store the number of published lines."""
        if self._id is not None:
            document = {"lines": lines, "lives": self._lives}
            await retry(lambda: self._client.index(index=self._index, id=self._id, document=document), self._seconds)

    async def clear(self) -> None:
        """Delete the checkpoint, once the source has been read to its end."""
        if self._id is not None:
            delete = partial(self._client.delete, index=self._index, id=self._id)
            await retry(delete, self._seconds)
