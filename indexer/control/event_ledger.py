"""Appends published marks to the event ledger (`cluster.publications`, decision 13)."""

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from elasticsearch import ConflictError
from msgspec.structs import replace

from cluster.control_index import Mark, mark_id
from cluster.publications import HEAD_ID, LedgerHead, advance, archive_id, renumbered, split_archive
from indexer.clock import now_microseconds
from indexer.context import IndexerContext
from indexer.control.control_documents import read_documents
from indexer.control.lives import read_identity
from indexer.indices.backoff import retry
from mappings import RESOURCES

# During a run the ledger may grow by this many publications at once, then by one per this many seconds.
_BURST_PUBLICATIONS = 100
_SECONDS_PER_PUBLICATION = 60.0


class EventRateLimit:
    """Limits the growth of the ledger: alternating changes of several resources are appended together."""

    def __init__(self) -> None:
        self._due = 0.0

    def allows(self, growth: int) -> bool:
        """Return whether the ledger may grow by so many publications now, and count them if so."""
        now = time.monotonic()
        due = max(self._due, now) + growth * _SECONDS_PER_PUBLICATION
        if growth > 0 and due > now + _BURST_PUBLICATIONS * _SECONDS_PER_PUBLICATION:
            return False
        self._due = due if growth > 0 else self._due
        return True


async def publish_events(
    context: IndexerContext, allows: Callable[[int], bool] = lambda _growth: True, seconds: float | None = None
) -> None:
    """Append everything that the marks say is published and the ledger lacks.

    No lock is needed: what is appended is published already, and concurrent runs append the same. `allows` may
    postpone growth by a given number of publications. `seconds` limits the retries while Elasticsearch is unreachable,
    by default to BROKERAGE_BULK_RETRY_SECONDS.
    """
    limited = context if seconds is None else _with_retries(context, seconds)
    while not await retry(lambda: _append_once(limited, allows), limited.settings.retry_seconds):
        pass


def _with_retries(context: IndexerContext, seconds: float) -> IndexerContext:
    return dataclasses.replace(context, settings=dataclasses.replace(context.settings, retry_seconds=seconds))


async def renumber_events(context: IndexerContext) -> None:
    """Continue above every number that can have been used, also in a control index that was restored unnoticed."""
    while not await retry(lambda: _renumber_once(context), context.settings.retry_seconds):
        pass


async def _renumber_once(context: IndexerContext) -> bool:
    """Try once; return False if another run has appended meanwhile."""
    head, condition, _ = await _read(context)
    control = await read_identity(context, context.connection.control_index)
    try:
        await _write(context, HEAD_ID, replace(renumbered(head, now_microseconds()), control=control), **condition)
    except ConflictError:
        return False
    return True


async def _append_once(context: IndexerContext, allows: Callable[[int], bool]) -> bool:
    """Try once; return False if another run has appended meanwhile."""
    head, condition, marks = await _read(context)
    recent, archive = split_archive(head)
    ledger = advance(recent, marks)
    if ledger is recent or not allows(ledger.count - recent.count):
        return True
    ledger = advance(await _in_this_life(context, recent), marks)
    if archive is not None:
        await _write(context, archive_id(head.archived), archive)
    try:
        await _write(context, HEAD_ID, ledger, **condition)
    except ConflictError:
        return False
    for number in range(head.first, ledger.first):
        await _delete(context, archive_id(number))
    return True


async def _read(context: IndexerContext) -> tuple[LedgerHead, dict[str, Any], Mapping[str, Mark]]:
    """Return the head of the ledger, the condition of writing over it, and the marks by alias."""
    aliases = {resource.alias: context.connection.alias(resource) for resource in RESOURCES}
    first, *others = await read_documents(context, [HEAD_ID, *map(mark_id, aliases.values())])
    documents = zip(aliases, others, strict=True)
    marks = {alias: msgspec.convert(document["_source"], Mark) for alias, document in documents if document}
    if first is None:
        return LedgerHead(), {"op_type": "create"}, marks
    condition = {"if_seq_no": first["_seq_no"], "if_primary_term": first["_primary_term"]}
    return msgspec.convert(first["_source"], LedgerHead), condition, marks


async def _in_this_life(context: IndexerContext, head: LedgerHead) -> LedgerHead:
    """Return the ledger, with numbers that none before can have used if it is new or was restored."""
    control = await read_identity(context, context.connection.control_index)
    if head.control == control:
        return head
    # A ledger of an earlier version has no identity. It continues.
    is_continued = not head.control and head.end > 0
    return replace(head if is_continued else renumbered(head, now_microseconds()), control=control)


async def _write(context: IndexerContext, identifier: str, document: msgspec.Struct, **condition: Any) -> None:
    index = context.connection.control_index
    await context.client.index(index=index, id=identifier, document=msgspec.to_builtins(document), **condition)


async def _delete(context: IndexerContext, identifier: str) -> None:
    """Delete a superseded archive. One that a killed run leaves behind is never read."""
    index = context.connection.control_index
    await context.client.options(ignore_status=404).delete(index=index, id=identifier)
