"""Documents in the control index: marks and their epochs, and last runs.

A mark continues the one before it, or begins a new epoch of the data (decision 18). Each lock holder rewrites the mark
of its predecessor before it assigns stamps. From then on a mark from an earlier holder is rejected, whatever the clocks
say, because it was to replace another version. Published marks are appended to the event ledger
(`cluster.control_index`, decision 13).
"""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from elasticsearch import ConflictError, NotFoundError
from msgspec import structs

from cluster.client import Backoff, error_reason
from cluster.control_index import (
    HISTORY_SETTING,
    UUID_SETTING,
    Mark,
    index_identity,
    is_another,
    mark_id,
    publish_mark,
)
from indexer.clock import ClockWatch, now_milliseconds
from indexer.errors import ElasticsearchError, LockedError
from indexer.settings import IndexerContext

_NAME_BYTES = 6
_SECOND = 1_000  # milliseconds


class StoredIdentities(NamedTuple):
    """The identities of the control index and of one generation.

    `latest_mark` is the latest clock, in milliseconds since 1970, that a mark which was lost can have had.
    """

    control: str
    generation: str
    latest_mark: int = 0


async def read_identities(context: IndexerContext, generation: str, clock: ClockWatch) -> StoredIdentities:
    """Return the identities as Elasticsearch has them now; empty for an index that does not exist."""
    control = context.connection.control_index
    found = await read_all_identities(context, [control, generation])
    return StoredIdentities(found.get(control, ""), found.get(generation, ""), clock.latest_mark())


async def read_identity(context: IndexerContext, index: str) -> str:
    return (await read_all_identities(context, [index])).get(index, "")


async def read_all_identities(context: IndexerContext, indices: Sequence[str]) -> dict[str, str]:
    """Return the identities of those of the indices that exist, as Elasticsearch has them now."""
    settings, read = [UUID_SETTING, HISTORY_SETTING], context.cluster.indices.get_settings
    response = await read(index=indices, name=settings, flat_settings=True, ignore_unavailable=True)
    return {index: index_identity(body["settings"]) for index, body in response.items()}


def first_mark(generation: str, stored: StoredIdentities) -> Mark:
    return Mark(clock=0, sequence=0, epoch=0, generation=generation, epoch_id=_new_name(), control=stored.control)


def mark_of_unknown(generation: str, stored: StoredIdentities) -> Mark:
    """Return the mark of a live generation that has none: the control index was lost."""
    return begin_epoch(Mark(clock=0, sequence=0, epoch=-1, generation=generation), stored)


def continued(mark: Mark, stored: StoredIdentities, live: str) -> Mark:
    """Return the mark to continue from, in a new epoch if its data were restored or replaced since it was published."""
    if is_replaced(mark, stored, live):
        return begin_epoch(mark, stored)
    if not mark.epoch_id:
        mark = structs.replace(mark, epoch_id=_new_name(), named_at=mark.sequence)
    return structs.replace(mark, control=stored.control)


def is_replaced(mark: Mark, stored: StoredIdentities, live: str) -> bool:
    """Whether the control index, or the generation of the mark, is not the one that the mark was published for."""
    is_other_index = mark.generation == live and is_another(mark.index, stored.generation)
    return is_other_index or is_another(mark.control, stored.control)


def begin_epoch(mark: Mark, stored: StoredIdentities) -> Mark:
    """Return the mark in a new epoch. Its clock is the next second, so that no reader of an earlier epoch has it.

    Marks that a restore undid count, too: their runs may have had clocks that were ahead of this one.
    """
    second = (max(mark.clock, stored.latest_mark, now_milliseconds()) // _SECOND + 1) * _SECOND
    return structs.replace(
        mark,
        clock=second,
        epoch=mark.epoch + 1,
        epoch_id=_new_name(),
        named_at=-1,
        resend_before=second,
        repaired=0,  # a repair of an earlier epoch: who was given its void clocks reads everything, too
        control=stored.control,
    )


def _new_name() -> str:
    return secrets.token_urlsafe(_NAME_BYTES)


class MarkStore:
    """Reads and publishes a mark on behalf of a lock `token`; 0 is the first build, which has none."""

    def __init__(self, context: IndexerContext, alias: str, token: int = 0) -> None:
        self._context = context
        self._alias = alias
        self._token = token
        self._index, self._id = context.connection.control_index, mark_id(alias)
        self._condition: dict[str, Any] = {"op_type": "create"}

    async def read(self) -> Mark | None:
        """Return the mark, None before the first one. The next publication replaces this version only."""
        mark, _ = await self._read()
        return mark

    async def claim(self) -> Mark | None:
        """Return the mark, and prevent earlier holders from publishing."""
        while (mark := await self.read()) is not None:
            try:
                await self._write(mark)
            except ConflictError:
                continue
            break
        return mark

    async def publish(self, mark: Mark) -> None:
        """Publish a mark, after a successful refresh and, if there is one, after the swap.

        Raises LockedError if another holder has claimed the mark or published one.
        """
        try:
            await self._write(mark)
        except ConflictError:
            if await self._read() != (mark, self._token):  # otherwise only the response was lost
                raise LockedError("The lock was lost to another run, which has published since.") from None

    async def _read(self) -> tuple[Mark | None, int]:
        try:
            response = await self._context.cluster.get(index=self._index, id=self._id)
        except NotFoundError:
            return None, 0
        self._condition = unchanged(response)
        source = response["_source"]
        return msgspec.convert(source, Mark), source.get("holder", 0)

    async def _write(self, mark: Mark) -> None:
        cluster, holder = self._context.cluster, self._token
        response = await publish_mark(cluster, self._index, self._alias, mark, holder=holder, **self._condition)
        self._condition = unchanged(response)


def unchanged(document: Any) -> dict[str, Any]:
    """Return the condition of a write over a document, as read or written: that it has not changed since."""
    return {"if_seq_no": document["_seq_no"], "if_primary_term": document["_primary_term"]}


_NO_INDEX = "index_not_found_exception"


async def read_documents(context: IndexerContext, ids: Sequence[str]) -> list[Mapping[str, Any] | None]:
    """Return the documents in this order, None for each that does not exist.

    Elasticsearch reports what it cannot read at the moment within a successful response. That is retried for
    `retry_seconds`, then raises ElasticsearchError: to take it for absent would start over what is only unreachable.
    """
    cluster, index = context.cluster.options(ignore_status=404), context.connection.control_index
    backoff = Backoff(context.settings.retry_seconds)
    while True:
        response = await cluster.mget(index=index, ids=[*ids])
        documents: list[dict[str, Any]] = response.get("docs", [{}] * len(ids))
        errors = [document for document in documents if "error" in document]
        unread = next((error for error in errors if error["error"]["type"] != _NO_INDEX), None)
        if unread is None:
            return [document if document.get("found") else None for document in documents]
        failure = ElasticsearchError(f"The control index cannot be read: {error_reason(unread)}.")
        if not await backoff.wait(failure):
            raise failure


class RunRecord(msgspec.Struct, frozen=True):
    """The last rebuild or update of a resource. Times are milliseconds since 1970.

    `newest` is the latest `updated_at` that it applied; `at` - `newest` is the lag of what is served behind its source.
    """

    verb: str
    at: int
    newest: int
    read: int
    dead: int
    dead_letters: str | None


async def record_last_run(context: IndexerContext, alias: str, entry: RunRecord) -> None:
    index, document = context.connection.control_index, msgspec.to_builtins(entry)
    await context.cluster.index(index=index, id=f"last-{alias}", document=document)


async def read_last_run(context: IndexerContext, alias: str) -> RunRecord | None:
    try:
        response = await context.client.get(index=context.connection.control_index, id=f"last-{alias}")
    except NotFoundError:
        return None
    return msgspec.convert(response["_source"], RunRecord)
