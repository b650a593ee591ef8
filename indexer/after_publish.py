"""What follows a publication of marks, whichever command has published them, and what follows a run.

Files of whole companies are no step of the indexer, since the service writes them: after a rebuild, its command does
(BROKERAGE_PUBLISH_AFTER_SWAP).
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import msgspec

from cluster.control_index import Mark, mark_id
from indexer.control import read_documents
from indexer.names import LACKING_QUERY, NAME_TARGETS, Reached, carry_names
from indexer.reso.event_ledger import publish_events
from indexer.settings import IndexerContext
from indexer.troubles import withdraw_due
from mappings import RESOURCES

Allows: TypeAlias = Callable[[int], bool]
Hook: TypeAlias = Callable[[IndexerContext, Allows], Awaitable[None]]

AFTER_PUBLISH: tuple[Hook, ...] = (publish_events,)


async def after_publish(
    context: IndexerContext, allows: Allows = lambda _growth: True, seconds: float | None = None
) -> None:
    """Do what follows a publication; repeated, it does what is missing.

    `allows` may postpone what grows by a given number of publications. `seconds` limits the retries while Elasticsearch
    is unreachable, by default to BROKERAGE_BULK_RETRY_SECONDS.
    """
    if seconds is not None:
        context = replace(context, settings=replace(context.settings, retry_seconds=seconds))
    for hook in AFTER_PUBLISH:
        await hook(context, allows)


# During a run what is appended may grow by this many publications at once, then by one per this many seconds.
_BURST_PUBLICATIONS = 100
_SECONDS_PER_PUBLICATION = 60.0


class PublicationPace:
    """Limits how much is appended during a run: alternating changes of several resources are appended together."""

    def __init__(self) -> None:
        self._due = 0.0

    def allows(self, growth: int) -> bool:
        """Return whether it may grow by so many publications now, and count them if so."""
        now = time.monotonic()
        due = max(self._due, now) + growth * _SECONDS_PER_PUBLICATION
        if growth > 0 and due > now + _BURST_PUBLICATIONS * _SECONDS_PER_PUBLICATION:
            return False
        self._due = due if growth > 0 else self._due
        return True


_LISTINGS = tuple(resource for resource in RESOURCES if resource.names)
_NAMED = (*NAME_TARGETS, *(resource.alias for resource in _LISTINGS))


async def after_run(context: IndexerContext, since: Mapping[str, int] | None = None) -> list[str]:
    """Withdraw the records that are due, and give listings the names that have changed; return sentences on that.

    Then do what follows their publication and those of the run.

    `since` are the changes of agents and offices that the run has seen in all that it has written: later ones may be
    lacking there. Call it without a write lock. What is interrupted is done by the next run.
    """
    await withdraw_due(context)
    prefix = context.connection.prefix
    states = [f"names-{prefix}{resource.alias}" for resource in _LISTINGS]
    stored = await read_documents(context, [*map(mark_id, [prefix + alias for alias in _NAMED]), *states])
    found = [{} if document is None else document["_source"] for document in stored]
    marks = {alias: msgspec.convert(mark, Mark) for alias, mark in zip(_NAMED, found, strict=False) if mark}
    sequences = {alias: marks[alias].sequence for alias in NAME_TARGETS if alias in marks}
    epochs = [marks[alias].epoch_id for alias in NAME_TARGETS if alias in marks]
    notes, known = list[str](), msgspec.convert(found[len(_NAMED) :], list[Reached])
    for resource, state, reached in zip(_LISTINGS, states, known, strict=True):
        if (mark := marks.get(resource.alias)) is None or not sequences:
            continue
        present = Reached(" ".join([mark.generation, mark.epoch_id, *epochs]), sequences)
        before = reached if since is None else reached.at_most(since)
        if present == before or not await context.cluster.count_completely(prefix + resource.alias, LACKING_QUERY):
            continue
        carried = await carry_names(context, resource, before, present)
        if carried.is_complete:
            control, document = context.connection.control_index, msgspec.to_builtins(present)
            await context.cluster.index(index=control, id=state, document=document)
        if carried.count:
            notes.append(str(carried))
    await after_publish(context)
    return notes


async def name_sequences(context: IndexerContext) -> dict[str, int]:
    """Return the last published changes of agents and offices."""
    marks = await read_documents(context, [mark_id(context.connection.prefix + alias) for alias in NAME_TARGETS])
    return {alias: mark["_source"]["sequence"] for alias, mark in zip(NAME_TARGETS, marks, strict=True) if mark}
