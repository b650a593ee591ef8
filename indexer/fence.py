"""Fences: aliases through which one holder of a lock writes, and which the engine takes from it with the lock.

A process may sleep through the loss of its lock and then go on. What it sends to its alias after another has moved the
fence is refused by the engine, and so is a swap that has to take the fence along.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from elasticsearch import ApiError, TransportError

from indexer.retry import patiently

if TYPE_CHECKING:
    from indexer.engine import Engine


async def put_up(engine: Engine, family: str, token: int, index: str) -> str:
    """Let only the holder of `token` write into `index` from now on, and return the alias to write through.

    Aliases of the same family that stand for earlier holders go in the same step.
    """
    fence = f"{family}-{token}"
    found = await engine.client.indices.get_alias(index="*", name=f"{family}-*")
    removals: list[dict[str, Any]] = [
        {"remove": {"index": holder, "alias": alias}}
        for holder, body in found.items()
        for alias in body["aliases"]
        if alias.removeprefix(f"{family}-").isdecimal() and (holder, alias) != (index, fence)
    ]
    actions = [{"add": {"index": index, "alias": fence}}, *removals]
    await patiently(partial(engine.client.indices.update_aliases, actions=actions), engine.settings.retry_seconds)
    return fence


async def lift(engine: Engine, index: str, fence: str) -> None:
    """Take a fence down; one that the next holder has moved, or a swap has taken along, is gone already."""
    action = {"remove": {"index": index, "alias": fence}}
    with suppress(ApiError, TransportError):
        await engine.client.indices.update_aliases(actions=[action])
