"""The event ledger of RESO out, to which published marks are appended (`cluster.control_index`, decision 13)."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from elasticsearch import ConflictError
from msgspec import structs

from cluster.control_index import HEAD_ID, LedgerHead, Mark, advance, archive_id, mark_id, renumbered, split_archive
from indexer.clock import now_microseconds
from indexer.control import read_documents, read_identity, unchanged
from indexer.settings import IndexerContext
from mappings import RESOURCES


async def publish_events(context: IndexerContext, allows: Callable[[int], bool] = lambda _growth: True) -> None:
    """Append everything that the marks say is published and the ledger lacks.

    No lock is needed: what is appended is published already, and concurrent runs append the same. `allows` may
    postpone growth by a given number of publications.
    """
    while not await _append_once(context, allows):
        pass


async def renumber_events(context: IndexerContext) -> None:
    """Continue above every number that can have been used, also in a control index that was restored unnoticed."""
    while not await _renumber_once(context):
        pass


async def _renumber_once(context: IndexerContext) -> bool:
    """Try once; return False if another run has appended meanwhile."""
    head, condition, _ = await _read_ledger(context)
    control = await read_identity(context, context.connection.control_index)
    try:
        await _write_ledger(
            context, HEAD_ID, structs.replace(renumbered(head, now_microseconds()), control=control), **condition
        )
    except ConflictError:
        return False
    return True


async def _append_once(context: IndexerContext, allows: Callable[[int], bool]) -> bool:
    """Try once; return False if another run has appended meanwhile."""
    head, condition, marks = await _read_ledger(context)
    recent, archive = split_archive(head)
    ledger = advance(recent, marks)
    if ledger is recent or not allows(ledger.count - recent.count):
        return True
    ledger = advance(await _in_this_epoch(context, recent), marks)
    if archive is not None:
        await _write_ledger(context, archive_id(head.archived), archive)
    try:
        await _write_ledger(context, HEAD_ID, ledger, **condition)
    except ConflictError:
        return False
    for number in range(head.first, ledger.first):
        await _delete_archive(context, archive_id(number))
    return True


async def _read_ledger(context: IndexerContext) -> tuple[LedgerHead, dict[str, Any], Mapping[str, Mark]]:
    """Return the head of the ledger, the condition of writing over it, and the marks by alias."""
    aliases = {resource.alias: context.connection.alias(resource) for resource in RESOURCES}
    first, *others = await read_documents(context, [HEAD_ID, *map(mark_id, aliases.values())])
    documents = zip(aliases, others, strict=True)
    marks = {alias: msgspec.convert(document["_source"], Mark) for alias, document in documents if document}
    if first is None:
        return LedgerHead(), {"op_type": "create"}, marks
    return msgspec.convert(first["_source"], LedgerHead), unchanged(first), marks


async def _in_this_epoch(context: IndexerContext, head: LedgerHead) -> LedgerHead:
    """Return the ledger, with numbers that none before can have used if it is new or was restored."""
    control = await read_identity(context, context.connection.control_index)
    if head.control == control:
        return head
    # A ledger of an earlier version has no identity. It continues.
    is_continued = not head.control and head.end > 0
    return structs.replace(head if is_continued else renumbered(head, now_microseconds()), control=control)


async def _write_ledger(context: IndexerContext, identifier: str, document: msgspec.Struct, **condition: Any) -> None:
    index = context.connection.control_index
    await context.cluster.index(index=index, id=identifier, document=msgspec.to_builtins(document), **condition)


async def _delete_archive(context: IndexerContext, identifier: str) -> None:
    """Delete a superseded archive. One that a killed run leaves behind is never read."""
    index = context.connection.control_index
    await context.cluster.options(ignore_status=404).delete(index=index, id=identifier)
