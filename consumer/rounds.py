"""A pull from its begin to its end: caught up, verified, exported, once or for as long as it is let."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from consumer.compare import compare
from consumer.copies.export import export
from consumer.errors import Away
from consumer.standing import Proof, Stage

if TYPE_CHECKING:
    from pathlib import Path

    from consumer.pull import Pull

_WAIT_SECONDS = 30
# Between two questions at least, also where the service does not hold an answer back.
_LEAST_SECONDS = 1.0
_AWAY_SECONDS = 30.0


@dataclass(frozen=True)
class Plan:
    """What is done beside pulling: the exports, if there are any, and how often, in seconds, while following."""

    folder: Path
    form: str | None = None
    is_verified: bool = True
    verify_seconds: float = 3600.0
    export_seconds: float = 300.0


async def once(pull: Pull, plan: Plan) -> None:
    """Bring the copy up to date; verify and export it as planned."""
    await pull.catch_up()
    if plan.is_verified:
        await verify(pull)
    await export_all(pull, plan)
    for resource in pull.resources:
        pull.standings[resource].records = await asyncio.to_thread(pull.copy.count, resource)
        pull.say(resource, Stage.CURRENT)


async def follow(pull: Pull, plan: Plan) -> None:
    """Do it once, then follow the changes until cancelled. A service that is away is waited for."""
    verified = exported = -float("inf")
    while True:
        began = time.monotonic()
        try:
            await pull.catch_up(_WAIT_SECONDS)
            if plan.is_verified and began - verified >= plan.verify_seconds:
                await verify(pull)
                verified = time.monotonic()
            if began - exported >= plan.export_seconds:
                await export_all(pull, plan)
                exported = time.monotonic()
        except Away as error:
            pull.say_waiting(_AWAY_SECONDS, str(error))
            await asyncio.sleep(_AWAY_SECONDS)
        await asyncio.sleep(began + _LEAST_SECONDS - time.monotonic())


async def verify(pull: Pull) -> None:
    """Compare every resource with the service, and take a new snapshot of what differs."""
    for resource in pull.resources:
        pull.say(resource, Stage.VERIFYING)
        pull.standings[resource].proof = await _proven(pull, resource)
        pull.say(resource, Stage.CURRENT)


async def _proven(pull: Pull, resource: str) -> Proof:
    verdict = await compare(pull, resource)
    pull.standings[resource].different = verdict.different
    if not verdict.different:
        return Proof.UNSETTLED if verdict.unsettled else Proof.EQUAL
    await pull.take_snapshot(resource)
    again = await compare(pull, resource)
    return Proof.DIFFERENT if again.different else Proof.MENDED


async def export_all(pull: Pull, plan: Plan) -> None:
    """Write the files of what has changed since the last export."""
    for resource in pull.resources if plan.form else ():
        pull.say(resource, Stage.EXPORTING)
        await asyncio.to_thread(export, pull.copy, resource, plan.folder, plan.form or "")
        pull.say(resource, Stage.CURRENT)
