"""Lives of the data: a mark continues the one before it, or begins a new life (decision 18)."""

import secrets
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from cluster.control_index import Mark
from cluster.index_identity import HISTORY_SETTING, UUID_SETTING, index_identity, is_another
from indexer.clock import now_milliseconds
from indexer.context import IndexerContext
from indexer.indices.cluster_clock import ClockWatch

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
    """Return the identity of one index, empty if it does not exist."""
    return (await read_all_identities(context, [index])).get(index, "")


async def read_all_identities(context: IndexerContext, indices: Sequence[str]) -> dict[str, str]:
    """Return the identities of those of the indices that exist, as Elasticsearch has them now."""
    settings, read = [UUID_SETTING, HISTORY_SETTING], context.client.indices.get_settings
    response = await read(index=indices, name=settings, flat_settings=True, ignore_unavailable=True)
    return {index: index_identity(body["settings"]) for index, body in response.items()}


def first_mark(generation: str, stored: StoredIdentities) -> Mark:
    """Return the mark before the first change of a generation."""
    return Mark(clock=0, sequence=0, epoch=0, generation=generation, life=_new_name(), control=stored.control)


def mark_of_unknown(generation: str, stored: StoredIdentities) -> Mark:
    """Return the mark of a live generation that has none: the control index was lost."""
    return begin_life(Mark(clock=0, sequence=0, epoch=-1, generation=generation), stored)


def continued(mark: Mark, stored: StoredIdentities, live: str) -> Mark:
    """Return the mark to continue from, in a new life if its data were restored or replaced since it was published."""
    if is_replaced(mark, stored, live):
        return begin_life(mark, stored)
    if not mark.life:
        mark = structs.replace(mark, life=_new_name(), named_at=mark.sequence)
    return structs.replace(mark, control=stored.control)


def is_replaced(mark: Mark, stored: StoredIdentities, live: str) -> bool:
    """Whether the control index, or the generation of the mark, is not the one that the mark was published for."""
    is_other_index = mark.generation == live and is_another(mark.index, stored.generation)
    return is_other_index or is_another(mark.control, stored.control)


def begin_life(mark: Mark, stored: StoredIdentities) -> Mark:
    """Return the mark in a new life. Its clock is the next second, so that no reader of an earlier life has it.

    Marks that a restore undid count, too: their runs may have had clocks that were ahead of this one.
    """
    second = (max(mark.clock, stored.latest_mark, now_milliseconds()) // _SECOND + 1) * _SECOND
    return structs.replace(
        mark,
        clock=second,
        epoch=mark.epoch + 1,
        life=_new_name(),
        named_at=-1,
        resend_before=second,
        repaired=0,  # a repair of an earlier life: who was given its void clocks reads everything, too
        control=stored.control,
    )


def _new_name() -> str:
    return secrets.token_urlsafe(_NAME_BYTES)
