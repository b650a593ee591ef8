"""Appends to the ledger of events what the marks say is published (`cluster.events`, decision 13)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec
from elasticsearch import ConflictError

from cluster.control import Mark, mark_id
from cluster.events import HEAD_ID, Head, advance, archive_id, cut
from indexer.errors import EngineError, reason
from indexer.retry import patiently
from mappings import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from indexer.engine import Engine

# While a run goes on, so many publications may be begun at once, and after that one in so many seconds.
_BURST = 100
_SECONDS_EACH = 60.0
_NO_INDEX = "index_not_found_exception"


class Pacing:
    """Keeps the ledger from growing without need: changes of several resources that come in turns are told together."""

    def __init__(self) -> None:
        """Allow a burst."""
        self._due = 0.0

    def allows(self, growth: int) -> bool:
        """Return whether the ledger may grow by so many publications now, and count them if so."""
        now = time.monotonic()
        due = max(self._due, now) + growth * _SECONDS_EACH
        if growth > 0 and due > now + _BURST * _SECONDS_EACH:
            return False
        self._due = due if growth > 0 else self._due
        return True


def _always(_growth: int) -> bool:
    return True


async def tell(engine: Engine, allows: Callable[[int], bool] = _always, seconds: float | None = None) -> None:
    """Append whatever the marks of any resource say is published and the ledger does not tell yet.

    Nobody need hold a lock: what is appended is published already, and whoever comes first appends it. `allows` may put
    off what makes the ledger grow by so many publications; `seconds` is how long an engine that is away is waited for,
    as long as for everything else if not given.
    """
    patience = engine.settings.retry_seconds if seconds is None else seconds
    while not await patiently(lambda: _told(engine, allows), patience):
        pass


async def _told(engine: Engine, allows: Callable[[int], bool]) -> bool:
    """Try once; return False where another has appended meanwhile."""
    head, condition, marks = await _read(engine)
    kept, archive = cut(head)
    ledger = advance(kept, marks)
    if ledger is kept or not allows(ledger.count - kept.count):
        return True
    if archive is not None:
        await _write(engine, archive_id(head.archived), archive)
    try:
        await _write(engine, HEAD_ID, ledger, **condition)
    except ConflictError:
        return False
    for number in range(head.first, ledger.first):
        await _delete(engine, archive_id(number))
    return True


async def _read(engine: Engine) -> tuple[Head, dict[str, Any], Mapping[str, Mark]]:
    """Return the head of the ledger, the condition of writing over it, and the marks by alias."""
    index, aliases = engine.connection.control_index, {each.alias: engine.connection.alias(each) for each in RESOURCES}
    answer = await engine.client.mget(index=index, ids=[HEAD_ID, *map(mark_id, aliases.values())])
    first, *others = map(_found, answer["docs"])
    marks = {alias: msgspec.convert(each["_source"], Mark) for alias, each in zip(aliases, others, strict=True) if each}
    if first is None:
        return Head(), {"op_type": "create"}, marks
    condition = {"if_seq_no": first["_seq_no"], "if_primary_term": first["_primary_term"]}
    return msgspec.convert(first["_source"], Head), condition, marks


def _found(document: dict[str, Any]) -> dict[str, Any] | None:
    """Return a document of an answer, None where there is none; raise EngineError where it could not be read."""
    error = document.get("error", {"type": _NO_INDEX})
    if error["type"] != _NO_INDEX:
        raise EngineError(f"The control index cannot be read: {reason(document)}.")
    return document if document.get("found") else None


async def _write(engine: Engine, identifier: str, document: msgspec.Struct, **condition: Any) -> None:
    index = engine.connection.control_index
    await engine.client.index(index=index, id=identifier, document=msgspec.to_builtins(document), **condition)


async def _delete(engine: Engine, identifier: str) -> None:
    """Delete what is void. What a run that dies here leaves behind is never read."""
    index = engine.connection.control_index
    await engine.client.options(ignore_status=404).delete(index=index, id=identifier)
