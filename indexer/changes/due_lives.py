"""New lives of data that were restored, begun for all resources before a run changes any of them (decision 18)."""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

import msgspec

from cluster.control_index import Mark, mark_id
from indexer.changes.write_session import open_write_session
from indexer.context import IndexerContext
from indexer.control.control_documents import read_documents
from indexer.control.lives import StoredIdentities, is_replaced, read_all_identities
from indexer.errors import RefusedError
from indexer.indices.lifecycle import GenerationLifecycle
from mappings import RESOURCES, Resource


async def begin_due_lives(context: IndexerContext, on_wait: Callable[[str], None]) -> list[str]:
    """Begin a new life of each resource whose data, or marks, were restored, replaced or lost since the last run.

    Returns the names of the present lives. Raises LockedError or RefusedError.
    """
    marks = await _read_marks(context)
    due = [*await _replaced(context, marks), *await _without_mark(context, marks)]
    for resource in due:
        if await GenerationLifecycle(context, resource).live() is not None:
            async with open_write_session(context, resource, on_wait):
                pass  # a session begins a new life where one is due
    present = await _read_marks(context) if due else marks
    return [mark.life for mark in present.values() if mark.life]


async def replaced_resources(context: IndexerContext) -> list[Resource]:
    """Return the resources whose mark describes another control index, or another index than there is now."""
    return await _replaced(context, await _read_marks(context))


async def _without_mark(context: IndexerContext, marks: Collection[Resource]) -> list[Resource]:
    """Return the loaded resources without a mark, as after a loss of the control index."""
    found: list[Resource] = []
    for resource in RESOURCES:
        with suppress(RefusedError):  # an alias of another program
            if resource not in marks and await GenerationLifecycle(context, resource).live() is not None:
                found.append(resource)
    return found


async def _replaced(context: IndexerContext, marks: Mapping[Resource, Mark]) -> list[Resource]:
    control = context.connection.control_index
    found = await read_all_identities(context, [control, *(mark.generation for mark in marks.values())])
    return [resource for resource, mark in marks.items() if _is_replaced(mark, found, control)]


def _is_replaced(mark: Mark, found: dict[str, str], control: str) -> bool:
    stored = StoredIdentities(found.get(control, ""), found.get(mark.generation, ""))
    return not stored.generation or is_replaced(mark, stored, mark.generation)


async def _read_marks(context: IndexerContext) -> dict[Resource, Mark]:
    alias = context.connection.alias
    ids = {mark_id(alias(resource)): resource for resource in RESOURCES}
    documents = filter(None, await read_documents(context, [*ids]))
    return {ids[each["_id"]]: msgspec.convert(each["_source"], Mark) for each in documents}
