"""Whether a copy is what the service has: by one digest if it is, else down to the identifiers that differ.

A bucket that is unequal proves nothing while the service has changes of it that it does not tell yet (`unsettled`), or
where changes of it came since it was asked for. Those are asked for again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

from consumer.errors import Refused
from consumer.holding import Holding, holding
from consumer.proof import bucket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from consumer.answers import Bucket
    from consumer.pull import Pull, Touched

_ROUNDS = 6
# Held back by the service until something is published, which is what an unsettled bucket waits for.
_WAIT_SECONDS = 2
_PREFIXES_A_REQUEST = 64
# Of 1,000,000 records about 4,000 are in as many; where more is wrong, more names say nothing new.
_MOST_BUCKETS = 256


@dataclass
class Verdict:
    """Identifiers that differ, and the buckets of 4 digits of which nothing certain can be said."""

    different: list[str] = field(default_factory=list)
    unsettled: list[str] = field(default_factory=list)


async def compare(pull: Pull, resource: str) -> Verdict:
    """Compare a resource with the service; the copy is brought up to date on the way.

    A difference counts when it is seen twice: processes of a service may know of the same change at different times.
    """
    await pull.catch_up()
    held = await asyncio.to_thread(holding, pull.copy, resource)
    if held.damaged:
        return Verdict(different=held.damaged)
    left, suspected = await _unequal(pull, resource, held), set[str]()
    for number in range(_ROUNDS):
        if not left:
            break
        await pull.catch_up(wait=_WAIT_SECONDS if number else 0)
        seen = await _look_into(pull, resource, left)
        if confirmed := [name for name in seen.different if name in suspected]:
            return Verdict(different=confirmed)
        suspected = {*seen.different}
        left = sorted({*seen.unsettled, *(f"{bucket(name):04x}" for name in suspected)})
    return Verdict(unsettled=left)


async def _unequal(pull: Pull, resource: str, held: Holding) -> list[str]:
    """Return the buckets of 4 digits that are not equal, whatever the reason; none costs one request."""
    told = await pull.feed.digest(resource)
    if (told.count, told.digest) == held.below(""):
        return []
    wide = _differing(told.buckets, held, [""], 2)
    return [prefix async for prefix in _narrowed(pull, resource, held, wide)]


async def _narrowed(pull: Pull, resource: str, held: Holding, wide: Sequence[str]) -> AsyncIterator[str]:
    for some in _parts(wide):
        told = await pull.feed.digest(resource, some)
        for prefix in _differing(told.buckets, held, some, 4):
            yield prefix


def _differing(told: Iterable[Bucket], held: Holding, above: Sequence[str], length: int) -> list[str]:
    """Return the buckets of a length below some others of which the service tells something else than what is held."""
    theirs = {one.prefix: (one.count, one.digest) for one in told}
    ours = {prefix: held.below(prefix) for parent in above for prefix in held.prefixes(parent, length)}
    return sorted(prefix for prefix in theirs.keys() | ours.keys() if theirs.get(prefix) != ours.get(prefix))


async def _look_into(pull: Pull, resource: str, prefixes: Sequence[str]) -> Verdict:
    """Compare the records of the first buckets by name; the others are left for the next time."""
    looked, left = prefixes[:_MOST_BUCKETS], prefixes[_MOST_BUCKETS:]
    held = await asyncio.to_thread(holding, pull.copy, resource, looked)
    theirs = {one.prefix: one for some in _parts(looked) for one in await _named(pull, resource, some)}
    touched: Touched = set()
    await pull.catch_up(touched=touched)
    moved = {f"{bucket(identifier):04x}" for name, identifier in touched if name == resource}
    verdict = Verdict(unsettled=[*left])
    for prefix in looked:
        differing = _differing_names(held.contents[prefix], theirs.get(prefix))
        if differing and (prefix in moved or (prefix in theirs and theirs[prefix].unsettled)):
            verdict.unsettled.append(prefix)
        else:
            verdict.different += differing
    return verdict


async def _named(pull: Pull, resource: str, prefixes: Sequence[str]) -> list[Bucket]:
    """Return buckets of 4 digits with their records; where the service finds those too many, in smaller parts."""
    try:
        return (await pull.feed.digest(resource, prefixes)).buckets
    except Refused as error:
        if error.status != HTTPStatus.BAD_REQUEST or len(prefixes) == 1:
            raise
    half = len(prefixes) // 2
    return [*await _named(pull, resource, prefixes[:half]), *await _named(pull, resource, prefixes[half:])]


def _differing_names(ours: dict[str, str], told: Bucket | None) -> list[str]:
    theirs = {one.id: one.content for one in told.records} if told else {}
    return sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))


def _parts(prefixes: Sequence[str]) -> Iterable[Sequence[str]]:
    for at in range(0, len(prefixes), _PREFIXES_A_REQUEST):
        yield prefixes[at : at + _PREFIXES_A_REQUEST]
